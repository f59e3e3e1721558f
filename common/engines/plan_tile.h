/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_tile.h: chooses the tile of a matrix product, and how its depth is split, for the engines over
 * tile_gemm.cuh and tile_gemm.clh. A row of their .variants files holds the tile in its constants: rows, columns and
 * depth of a stage, then the rows and columns that a thread keeps in registers. Rows of block 1 are the CPU shape. */
#ifndef ADN_PLAN_TILE_H
#define ADN_PLAN_TILE_H
#include "common/backend.h"

/* Shares of the arithmetic peak that full tiles reach. */
struct adn_tile_speed {
    double large, middle, small; /* GPU tiles of 128, 64 and fewer rows */
    double cpu_large, cpu_small; /* CPU shape on a CPU, above 48 rows and below */
};

/* `copies` independent products of rows x depth by depth x columns. */
struct adn_tile_product {
    int dtype;
    int64_t copies, rows, columns, depth;
    double multiplications; /* that count in all copies */
    bool may_split;         /* the depth may be cut into partial sums in the workspace */
    bool as_listed;         /* the first tile that fits, whatever the sizes */
    int64_t part;           /* elements of one such sum */
    int64_t thread_bytes;   /* local memory that a thread takes beside the operands */
    int64_t element_bytes;  /* of an operand in local memory; 0 = that of a sum */
    struct adn_tile_speed speed;
};

struct adn_tile_layout {
    const struct adn_variant *variant;
    int64_t row_tiles, column_tiles, tiles; /* tiles: of all copies and splits */
    int64_t splits, split_depth;
    double share; /* of the peak that it would reach */
};

/* Tile number `index` among `rows` that this device's language has; NULL behind the last. */
const struct adn_variant *adn_tile_at(const struct adn_variant *rows, int count, int dtype,
                                      const struct adn_device *device, int index);

/* "128x128x8": the parameters' text. */
void adn_tile_name(const struct adn_variant *variant, char name[32]);

/* The best tile that fits the device and, where `params` is not NULL, has that name; splits as far as `workspace`
 * bytes allow. False with *why filled when there is none. */
bool adn_tile_choose(const struct adn_variant *rows, int count, const struct adn_tile_product *product,
                     const struct adn_device *device, uint64_t workspace, const char *params,
                     struct adn_tile_layout *best, struct adn_refusal *why);

/* Bytes of one sum in the arithmetic of a dtype. */
static inline int64_t adn_tile_sum_bytes(int dtype)
{
    return dtype == ANYDNN_F64 ? 8 : 4;
}

/* Bytes of a tensor's elements, each counted once: what a pass over it moves. */
static inline double adn_element_bytes(const anydnn_tensor *t)
{
    return (double)anydnn_tensor_count(t) * (double)anydnn_dtype_size(t->dtype);
}

static inline int64_t adn_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t adn_ceil_div(int64_t n, int64_t unit)
{
    return n / unit + (n % unit != 0);
}

#endif
