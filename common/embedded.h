/* SPDX-License-Identifier: Apache-2.0
 * common/embedded.h: kernel files embedded in the library (fatbins and OpenCL sources), one row for each stem. */
#ifndef ADN_EMBEDDED_H
#define ADN_EMBEDDED_H

struct adn_embedded {
    const char *stem;           /* NULL ends the table */
    const unsigned char *bytes; /* zero-terminated behind the last byte */
    const unsigned long *size;  /* without that zero */
};
extern const struct adn_embedded adn_cuda_stems[];
extern const struct adn_embedded adn_opencl_stems[];

#endif
