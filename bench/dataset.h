/* SPDX-License-Identifier: Apache-2.0
 * bench/dataset.h: reading images of digits: the CSV file in the source tree, and MNIST's IDX files. Both may be
 * compressed with gzip where zlib is built in. On failure false is returned and `error` tells what is wrong with which
 * file. */
#ifndef BENCH_DATASET_H
#define BENCH_DATASET_H
#include "api/examples/digits.h"

#include <stdbool.h>

struct dataset {
    digits_set train, test;
    char error[512];
};

/* Lines of 64 values 0..16 (8x8, row by row) and the digit. 30 % become the test set: as many of each digit as it has
 * in the whole, drawn by `seed`, since the file is ordered by writer. */
bool dataset_read_digits(const char *path, uint64_t seed, struct dataset *data);

/* A folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte,
 * each as it is or with .gz behind its name. */
bool dataset_read_mnist(const char *folder, struct dataset *data);

void dataset_free(struct dataset *data);
#endif
