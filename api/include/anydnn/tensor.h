/* SPDX-License-Identifier: Apache-2.0
 * anydnn/tensor.h: what a tensor is. A plain struct by const pointer: it owns nothing and names no memory. */
#ifndef ANYDNN_TENSOR_H
#define ANYDNN_TENSOR_H
#include <anydnn/core.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ANYDNN_MAX_DIMS 8

typedef enum anydnn_dtype {
    ANYDNN_F32 = 1,
    ANYDNN_F16 = 2,  /* IEEE binary16 */
    ANYDNN_BF16 = 3, /* upper half of an IEEE binary32 */
    ANYDNN_F64 = 4,
    ANYDNN_I8 = 5,
    ANYDNN_U8 = 6,
    ANYDNN_I32 = 7,
    ANYDNN_I64 = 8
} anydnn_dtype;

/* Element (i0, i1, ...) lies at element offset i0*strides[0] + i1*strides[1] + ... from the tensor's start.
 * Dimensions always come in the order N, C, (D,) (H,) W; the layout is in the strides alone: packed NCHW has
 * strides {CHW, HW, W, 1}, NHWC {HWC, 1, WC, C}. A dimension of size 1 may carry any stride. Strides are in elements,
 * >= 0. Inputs may see an element several times (stride 0, overlapping windows); for outputs that is INVALID: sorted by
 * size, each stride must pass the span of all smaller ones. Any dimension may be 0: such tensors are empty, need no
 * memory, and calls on them succeed. The tensor's bytes must number below 2^63. As cudnnSetTensorNdDescriptor. */
typedef struct anydnn_tensor {
    int32_t dtype;     /* anydnn_dtype */
    int32_t ndim;      /* 1..8 */
    int32_t alignment; /* bytes to which the first element is promised to be aligned: a power of two up to
                          4096; 0 = the element size only. Checked when a plan runs. */
    int32_t reserved0; /* 0 */
    int64_t dims[ANYDNN_MAX_DIMS];
    int64_t strides[ANYDNN_MAX_DIMS];
    int64_t reserved[2]; /* 0 */
} anydnn_tensor;

/* Bytes of one element; 0 for an unknown dtype. */
ANYDNN_API size_t anydnn_dtype_size(int dtype);

/* "f32", "f16", ...; "?" for an unknown dtype. */
ANYDNN_API const char *anydnn_dtype_name(int dtype);

/* Number of elements (product of dims), and bytes from the first to behind the last addressed element (0 when
 * empty), as cudnnGetTensorSizeInBytes. -1 for NULL, and when the tensor is malformed (dtype, ndim, a negative dim or
 * stride) or the number does not fit into 63 bits. */
ANYDNN_API int64_t anydnn_tensor_count(const anydnn_tensor *tensor);
ANYDNN_API int64_t anydnn_tensor_bytes(const anydnn_tensor *tensor);

/* The functions below make descriptions and check nothing: calls do. `dims` has ndim entries; empty or size-1 dims
 * count as 1 in strides, and strides stop at 2^63-1.
 * A packed tensor in row-major order of its dims (NCHW). ndim is cut to 0..8. */
static inline anydnn_tensor anydnn_tensor_packed(int dtype, int ndim, const int64_t *dims)
{
    anydnn_tensor t = { 0, 0, 0, 0, { 0 }, { 0 }, { 0 } };
    int64_t stride = 1;
    int i;
    if (ndim < 0) ndim = 0;
    if (ndim > ANYDNN_MAX_DIMS) ndim = ANYDNN_MAX_DIMS;
    t.dtype = dtype;
    t.ndim = ndim;
    for (i = ndim - 1; i >= 0; i--) {
        t.dims[i] = dims[i];
        t.strides[i] = stride;
        if (dims[i] > 1) stride = stride > INT64_MAX / dims[i] ? INT64_MAX : stride * dims[i];
    }
    return t;
}

/* A packed channels-last tensor: dims are given as N, C, spatial...; memory order is N, spatial..., C. */
static inline anydnn_tensor anydnn_tensor_channels_last(int dtype, int ndim, const int64_t *dims)
{
    anydnn_tensor t = anydnn_tensor_packed(dtype, ndim, dims);
    int64_t stride;
    int i;
    if (t.ndim < 3) return t;
    stride = dims[1] > 1 ? dims[1] : 1;
    t.strides[1] = 1;
    for (i = t.ndim - 1; i >= 2; i--) {
        t.strides[i] = stride;
        if (dims[i] > 1) stride = stride > INT64_MAX / dims[i] ? INT64_MAX : stride * dims[i];
    }
    t.strides[0] = stride;
    return t;
}

/* Packed: one axis; rows and columns; N, C, H, W in that order; and the same channels-last. */
static inline anydnn_tensor anydnn_tensor_1d(int dtype, int64_t n)
{
    return anydnn_tensor_packed(dtype, 1, &n);
}

static inline anydnn_tensor anydnn_tensor_2d(int dtype, int64_t rows, int64_t columns)
{
    int64_t dims[2];
    dims[0] = rows, dims[1] = columns;
    return anydnn_tensor_packed(dtype, 2, dims);
}

static inline anydnn_tensor anydnn_tensor_nchw(int dtype, int64_t n, int64_t c, int64_t h, int64_t w)
{
    int64_t dims[4];
    dims[0] = n, dims[1] = c, dims[2] = h, dims[3] = w;
    return anydnn_tensor_packed(dtype, 4, dims);
}

static inline anydnn_tensor anydnn_tensor_nhwc(int dtype, int64_t n, int64_t c, int64_t h, int64_t w)
{
    int64_t dims[4];
    dims[0] = n, dims[1] = c, dims[2] = h, dims[3] = w;
    return anydnn_tensor_channels_last(dtype, 4, dims);
}

#ifdef __cplusplus
}
#endif
#endif
