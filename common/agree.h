/* SPDX-License-Identifier: Apache-2.0
 * common/agree.h: do two engines' results for one output agree? */
#ifndef ADN_AGREE_H
#define ADN_AGREE_H
#include <anydnn/tensor.h>
#include <stdbool.h>

struct adn_closeness {
    double depth;   /* length of the longest sum of an element */
    double reduced; /* relative error of a product in reduced math; 0 in strict math */
    int64_t whole;  /* integers may be this far apart */
};

/* Compares the elements of a tensor in two images of its span. The tolerance of an element: one unit in the last place of
 * its dtype, and what sums of `depth` terms of the size of the largest element may be off by in f32. NaN and infinities
 * must be the same. On a difference writes the first one to *element (row-major number), *want and *got. */
bool adn_agrees(const anydnn_tensor *t, const void *want_image, const void *got_image, const struct adn_closeness *close,
                int64_t *element, double *want, double *got);

#endif
