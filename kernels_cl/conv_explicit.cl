/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/conv_explicit.cl: between a tensor and its matrix of columns: the kernels of
 * kernels_cuda/conv_explicit.cu. A block of one work item walks a run of neighbours. */
#include "prelude.clh"
#include "../common/engines/conv_explicit_params.h"

#define PLACE_OF(i) adn_conv_place_of((i), p.narrow, p.channel_inner, p.size[0], p.size[1], p.size[2], p.size[3])

/* Elements BEGIN to END of this work item, STEP apart; NEXT sets element e to number i, one STEP on. */
#if ADN_BLOCK == 1
/* The element behind e: division is slow on CPUs. */
ADN_FN void step_on(struct adn_conv_place *e, adn_i32 channel_inner, adn_i64 c, adn_i64 z, adn_i64 y, adn_i64 x)
{
    if (channel_inner) {
        if (++e->c < c) return;
        e->c = 0;
    }
    if (++e->x < x) return;
    e->x = 0;
    if (++e->y < y) return;
    e->y = 0;
    if (++e->z < z) return;
    e->z = 0;
    if (!channel_inner) {
        if (++e->c < c) return;
        e->c = 0;
    }
    e->n++;
}
#define RUN ((p.count + (adn_i64)get_num_groups(0) - 1) / (adn_i64)get_num_groups(0))
#define BEGIN ((adn_i64)get_group_id(0) * RUN)
#define END min((adn_i64)(get_group_id(0) + 1) * RUN, p.count)
#define STEP 1
#define NEXT(e, i) step_on(&(e), p.channel_inner, p.size[0].value, p.size[1].value, p.size[2].value, p.size[3].value)
#else
#define BEGIN ((adn_i64)get_global_id(0))
#define END p.count
#define STEP ((adn_i64)get_global_size(0))
#define NEXT(e, i) ((e) = PLACE_OF(i))
#endif

/* Offset of image and channel in the matrix. */
ADN_FN adn_i64 plane_of(struct adn_conv_place e, struct adn_divisor channels, adn_i32 narrow, adn_i64 n_step,
                        adn_i64 group_step, adn_i64 c_step)
{
    adn_i64 c = e.c, group = 0;
    if (c >= channels.value) group = adn_divide(c, channels, narrow, &c);
    return e.n * n_step + group * group_step + c * c_step;
}
#define PLANE_OF(e) plane_of((e), p.channels, p.narrow, p.n, p.group, p.c)

ADN_KERNEL(conv_explicit_columns)(ADN_IN(tensor), ADN_OUT(matrix), struct adn_conv_explicit_params p)
{
    ADN_PTR_IN(ADN_T, tensor);
    ADN_PTR_OUT(ADN_T, matrix);
    const adn_i64 end = END;
    adn_i64 i = BEGIN;
    struct adn_conv_place e;
    int t, r, s;
    if (i >= end || p.alpha == 0.0f) return; /* with alpha 0 nobody reads them */
    for (e = PLACE_OF(i); i < end; i += STEP, NEXT(e, i)) {
        __global const ADN_T *from = tensor + (e.n * p.tensor[0] + e.c * p.tensor[1]);
        __global ADN_T *to = matrix + (PLANE_OF(e) + e.z * p.position[0] + e.y * p.position[1] + e.x * p.position[2]);
        int z = (int)e.z * (int)p.stride[0].value + p.origin[0];
        for (t = 0; t < p.taps[0]; t++, z += p.step[0]) {
            int y = (int)e.y * (int)p.stride[1].value + p.origin[1];
            for (r = 0; r < p.taps[1]; r++, y += p.step[1]) {
                const bool inside = z >= 0 && z < p.extent[0] && y >= 0 && y < p.extent[1];
                const adn_i64 line = z * p.tensor[2] + y * p.tensor[3], out = t * p.tap[0] + r * p.tap[1];
                int x = (int)e.x * (int)p.stride[2].value + p.origin[2];
                for (s = 0; s < p.taps[2]; s++, x += p.step[2]) {
                    float v = 0.0f;
                    if (inside && x >= 0 && x < p.extent[2]) v = ADN_LOAD(from, line + x * p.tensor[4]);
                    ADN_STORE(to, out + s * p.tap[2], v);
                }
            }
        }
    }
}

/* The position from which tap `t` of an axis reaches coordinate `i`, or -1. */
ADN_FN int position_of(int i, int t, int origin, int step, struct adn_divisor stride, int extent)
{
    const int scaled = i - origin - t * step;
    int o = scaled;
    if (scaled < 0) return -1;
    if (stride.value > 1) o = (int)adn_div32((adn_u32)scaled, stride.multiplier, stride.shift);
    return o * (int)stride.value == scaled && o < extent ? o : -1;
}
#define POSITION_OF(i, t, axis) position_of((i), (t), p.origin[axis], p.step[axis], p.stride[axis], p.extent[axis])

ADN_KERNEL(conv_explicit_gather)(ADN_IN(matrix), ADN_IN(bias), ADN_OUT(tensor), struct adn_conv_explicit_params p)
{
    ADN_PTR_IN(float, matrix);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, tensor);
    const adn_i64 end = END;
    adn_i64 i = BEGIN;
    struct adn_conv_place e;
    int t, r, s;
    if (i >= end) return;
    for (e = PLACE_OF(i); i < end; i += STEP, NEXT(e, i)) {
        const adn_i64 at =
            e.n * p.tensor[0] + e.c * p.tensor[1] + e.z * p.tensor[2] + e.y * p.tensor[3] + e.x * p.tensor[4];
        __global const float *from = matrix + PLANE_OF(e);
        float sum = 0.0f;
        for (t = 0; t < p.taps[0]; t++) {
            const int z = POSITION_OF((int)e.z, t, 0);
            if (z < 0) continue;
            for (r = 0; r < p.taps[1]; r++) {
                const int y = POSITION_OF((int)e.y, r, 1);
                adn_i64 line;
                if (y < 0) continue;
                line = t * p.tap[0] + z * p.position[0] + r * p.tap[1] + y * p.position[1];
                for (s = 0; s < p.taps[2]; s++) {
                    const int x = POSITION_OF((int)e.x, s, 2);
                    if (x >= 0) sum += from[line + s * p.tap[2] + x * p.position[2]];
                }
            }
        }
        sum *= p.alpha;
        if (p.biased) sum += ADN_LOAD(bias, e.c * p.bias_step);
        ADN_STORE_SCALED(tensor, at, sum, 1.0f, p.beta);
    }
}
