/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/backend.c */
#include "common/backend.h"

static int probe(struct adn_device *devices, int capacity, char *note, size_t note_size)
{
    (void)devices, (void)capacity, (void)note, (void)note_size;
    return 0;
}

const struct adn_backend adn_opencl_backend = { .abi = ADN_BACKEND_ABI, .name = "opencl", .probe = probe };
