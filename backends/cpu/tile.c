/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/tile.c: the inner loops of convolution and matrix product. Each is compiled for f32, f16, bf16 and f64,
 * and once more with AVX2 where the processor may have it: without contraction both give the same bits. */
#include "tile.h"
#include "number.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define WIDE_TARGET __attribute__((target("avx2")))
#define HAS_WIDE (__builtin_cpu_supports("avx2") != 0)
#else
#define WIDE_TARGET
#define HAS_WIDE 0
#endif

ADN_ALWAYS_INLINE void add_four(double *restrict s0, double *restrict s1, double *restrict s2, double *restrict s3,
                                int64_t sum_step, const double *factor, const void *restrict source, int dtype,
                                int64_t at, int64_t step, int64_t count)
{
    const double f0 = factor[0], f1 = factor[1], f2 = factor[2], f3 = factor[3];
    int64_t i;
    for (i = 0; i < count; i++) {
        const double v = adn_load(source, dtype, at + i * step);
        s0[i * sum_step] += f0 * v;
        s1[i * sum_step] += f1 * v;
        s2[i * sum_step] += f2 * v;
        s3[i * sum_step] += f3 * v;
    }
}

ADN_ALWAYS_INLINE void add_one(double *restrict sum, int64_t sum_step, double factor, const void *restrict source,
                               int dtype, int64_t at, int64_t step, int64_t count)
{
    int64_t i;
    for (i = 0; i < count; i++) sum[i * sum_step] += factor * adn_load(source, dtype, at + i * step);
}

ADN_ALWAYS_INLINE void add(const struct adn_tile *t, double (*sum)[ADN_TILE_COLUMNS], int dtype)
{
    const int64_t at = t->sum_at, count = t->count;
    const int packed = t->sum_step == 1 && t->source_step == 1;
    int64_t c;
    int j;
    for (c = 0; c < t->depth; c++) {
        const int64_t from = t->source_at + c * t->source_depth, factor_at = t->factor_at + c * t->factor_depth;
        double factor[ADN_TILE_ROWS];
        for (j = 0; j < t->rows; j++) factor[j] = adn_load(t->factor, dtype, factor_at + j * t->factor_row);
        if (t->rows == ADN_TILE_ROWS && packed)
            add_four(sum[0] + at, sum[1] + at, sum[2] + at, sum[3] + at, 1, factor, t->source, dtype, from, 1, count);
        else if (t->rows == ADN_TILE_ROWS)
            add_four(sum[0] + at, sum[1] + at, sum[2] + at, sum[3] + at, t->sum_step, factor, t->source, dtype, from,
                     t->source_step, count);
        else
            for (j = 0; j < t->rows; j++)
                if (packed)
                    add_one(sum[j] + at, 1, factor[j], t->source, dtype, from, 1, count);
                else
                    add_one(sum[j] + at, t->sum_step, factor[j], t->source, dtype, from, t->source_step, count);
    }
}

/* One stretch of at most ADN_TILE_LANES columns of the four (or fewer) rows. */
ADN_ALWAYS_INLINE void dot_four(const struct adn_tile *t, double (*lane)[ADN_TILE_LANES], int dtype, int64_t factor_at,
                                int64_t factor_step, int64_t source_at, int64_t source_step, int64_t width)
{
    double *restrict l0 = lane[0], *restrict l1 = lane[1], *restrict l2 = lane[2], *restrict l3 = lane[3];
    const int64_t a1 = factor_at + t->factor_row, a2 = a1 + t->factor_row, a3 = a2 + t->factor_row;
    const void *restrict factor = t->factor, *restrict source = t->source;
    int64_t i;
    for (i = 0; i < width; i++) {
        const double v = adn_load(source, dtype, source_at + i * source_step);
        l0[i] += v * adn_load(factor, dtype, factor_at + i * factor_step);
        l1[i] += v * adn_load(factor, dtype, a1 + i * factor_step);
        l2[i] += v * adn_load(factor, dtype, a2 + i * factor_step);
        l3[i] += v * adn_load(factor, dtype, a3 + i * factor_step);
    }
}

ADN_ALWAYS_INLINE void dot_one(const struct adn_tile *t, double *restrict lane, int dtype, int64_t factor_at,
                               int64_t source_at, int64_t width)
{
    const void *restrict factor = t->factor, *restrict source = t->source;
    int64_t i;
    for (i = 0; i < width; i++)
        lane[i] += adn_load(source, dtype, source_at + i * t->source_step) *
                   adn_load(factor, dtype, factor_at + i * t->factor_step);
}

ADN_ALWAYS_INLINE void dot(const struct adn_tile *t, double (*lane)[ADN_TILE_LANES], int dtype)
{
    const int packed = t->factor_step == 1 && t->source_step == 1;
    int64_t c, begin;
    int j;
    for (c = 0; c < t->depth; c++)
        for (begin = 0; begin < t->count; begin += ADN_TILE_LANES) {
            const int64_t left = t->count - begin, width = left < ADN_TILE_LANES ? left : ADN_TILE_LANES;
            const int64_t factor_at = t->factor_at + c * t->factor_depth + begin * t->factor_step;
            const int64_t source_at = t->source_at + c * t->source_depth + begin * t->source_step;
            if (t->rows < ADN_TILE_ROWS)
                for (j = 0; j < t->rows; j++)
                    dot_one(t, lane[j], dtype, factor_at + j * t->factor_row, source_at, width);
            else if (packed && width == ADN_TILE_LANES)
                dot_four(t, lane, dtype, factor_at, 1, source_at, 1, ADN_TILE_LANES);
            else
                dot_four(t, lane, dtype, factor_at, t->factor_step, source_at, t->source_step, width);
        }
}

#define FOR_DTYPE(suffix, dtype)                                                                                       \
    static void add_##suffix(const struct adn_tile *t, double(*sum)[ADN_TILE_COLUMNS])                                 \
    {                                                                                                                  \
        add(t, sum, dtype);                                                                                            \
    }                                                                                                                  \
    static void dot_##suffix(const struct adn_tile *t, double(*lane)[ADN_TILE_LANES])                                  \
    {                                                                                                                  \
        dot(t, lane, dtype);                                                                                           \
    }                                                                                                                  \
    WIDE_TARGET static void add_##suffix##_wide(const struct adn_tile *t, double(*sum)[ADN_TILE_COLUMNS])              \
    {                                                                                                                  \
        add(t, sum, dtype);                                                                                            \
    }                                                                                                                  \
    WIDE_TARGET static void dot_##suffix##_wide(const struct adn_tile *t, double(*lane)[ADN_TILE_LANES])               \
    {                                                                                                                  \
        dot(t, lane, dtype);                                                                                           \
    }
FOR_DTYPE(f32, ANYDNN_F32)
FOR_DTYPE(f16, ANYDNN_F16)
FOR_DTYPE(bf16, ANYDNN_BF16)
FOR_DTYPE(f64, ANYDNN_F64)

adn_tile_add_fn adn_tile_add(int dtype)
{
    const int wide = HAS_WIDE;
    switch (dtype) {
    case ANYDNN_F32:
        return wide ? add_f32_wide : add_f32;
    case ANYDNN_F16:
        return wide ? add_f16_wide : add_f16;
    case ANYDNN_BF16:
        return wide ? add_bf16_wide : add_bf16;
    default:
        return wide ? add_f64_wide : add_f64;
    }
}

adn_tile_dot_fn adn_tile_dot(int dtype)
{
    const int wide = HAS_WIDE;
    switch (dtype) {
    case ANYDNN_F32:
        return wide ? dot_f32_wide : dot_f32;
    case ANYDNN_F16:
        return wide ? dot_f16_wide : dot_f16;
    case ANYDNN_BF16:
        return wide ? dot_bf16_wide : dot_bf16;
    default:
        return wide ? dot_f64_wide : dot_f64;
    }
}
