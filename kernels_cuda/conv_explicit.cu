// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/conv_explicit.cu: between a tensor and its matrix of columns (common/engines/conv_explicit_params.h).
//
// Kernels  conv_explicit_columns: one thread for each channel at each position writes the elements under the taps.
//          conv_explicit_gather: one thread for each element of the tensor adds up, in the order of the taps, what a
//          float matrix holds for it: tensor = alpha * sum + bias + beta * tensor.
// Limits   Coordinates below 2^30; offsets and element numbers are 64 bits.
#include "prelude.cuh"
#include "../common/engines/conv_explicit_params.h"

__device__ __forceinline__ adn_conv_place place_of(adn_i64 i, const adn_conv_explicit_params &p)
{
    return adn_conv_place_of(i, p.narrow, p.channel_inner, p.size[0], p.size[1], p.size[2], p.size[3]);
}

// Offset of image and channel in the matrix.
__device__ __forceinline__ adn_i64 plane_of(const adn_conv_place &e, const adn_conv_explicit_params &p)
{
    adn_i64 c = e.c, group = 0;
    if (c >= p.channels.value) group = adn_divide(c, p.channels, p.narrow, &c);
    return e.n * p.n + group * p.group + c * p.c;
}

template <typename T, int BLOCK>
__device__ void conv_explicit_columns(const T *tensor, T *matrix, const adn_conv_explicit_params &p)
{
    if (p.alpha == 0.0f) return; // nobody reads them
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_conv_place e = place_of(i, p);
        const T *from = tensor + (e.n * p.tensor[0] + e.c * p.tensor[1]);
        T *to = matrix + (plane_of(e, p) + e.z * p.position[0] + e.y * p.position[1] + e.x * p.position[2]);
        int z = (int)e.z * (int)p.stride[0].value + p.origin[0];
        for (int t = 0; t < p.taps[0]; t++, z += p.step[0]) {
            int y = (int)e.y * (int)p.stride[1].value + p.origin[1];
            for (int r = 0; r < p.taps[1]; r++, y += p.step[1]) {
                const bool inside = z >= 0 && z < p.extent[0] && y >= 0 && y < p.extent[1];
                const adn_i64 line = z * p.tensor[2] + y * p.tensor[3], out = t * p.tap[0] + r * p.tap[1];
                int x = (int)e.x * (int)p.stride[2].value + p.origin[2];
                for (int s = 0; s < p.taps[2]; s++, x += p.step[2])
                    adn_store(to, out + s * p.tap[2],
                              inside && x >= 0 && x < p.extent[2] ? adn_load(from, line + x * p.tensor[4]) : 0.0f);
            }
        }
    }
}

// The position from which tap `t` of an axis reaches coordinate `i`, or -1.
__device__ __forceinline__ int position_of(int i, int t, int axis, const adn_conv_explicit_params &p)
{
    const int scaled = i - p.origin[axis] - t * p.step[axis];
    if (scaled < 0) return -1;
    const int o = (int)adn_div32((adn_u32)scaled, p.stride[axis].multiplier, p.stride[axis].shift);
    return o * (int)p.stride[axis].value == scaled && o < p.extent[axis] ? o : -1;
}

template <typename T, int BLOCK>
__device__ void conv_explicit_gather(const float *matrix, const T *bias, T *tensor, const adn_conv_explicit_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_conv_place e = place_of(i, p);
        const float *from = matrix + plane_of(e, p);
        float sum = 0.0f;
        for (int t = 0; t < p.taps[0]; t++) {
            const int z = position_of((int)e.z, t, 0, p);
            if (z < 0) continue;
            for (int r = 0; r < p.taps[1]; r++) {
                const int y = position_of((int)e.y, r, 1, p);
                if (y < 0) continue;
                const float *line = from + (t * p.tap[0] + z * p.position[0] + r * p.tap[1] + y * p.position[1]);
                for (int s = 0; s < p.taps[2]; s++) {
                    const int x = position_of((int)e.x, s, 2, p);
                    if (x >= 0) sum += line[s * p.tap[2] + x * p.position[2]];
                }
            }
        }
        sum *= p.alpha;
        if (p.biased) sum += adn_load(bias, e.c * p.bias_step);
        adn_store_scaled(
            tensor, e.n * p.tensor[0] + e.c * p.tensor[1] + e.z * p.tensor[2] + e.y * p.tensor[3] + e.x * p.tensor[4],
            sum, 1.0f, p.beta);
    }
}

#define ADN_ENTRY_conv_explicit_columns(name, T, block, a, b, c, d, e, f)                                              \
    ADN_KERNEL(name, block)(const T *tensor, T *matrix, const __grid_constant__ adn_conv_explicit_params p)            \
    {                                                                                                                  \
        conv_explicit_columns<T, block>(tensor, matrix, p);                                                            \
    }
#define ADN_ENTRY_conv_explicit_gather(name, T, block, a, b, c, d, e, f)                                               \
    ADN_KERNEL(name, block)(const float *matrix, const T *bias, T *tensor,                                             \
                            const __grid_constant__ adn_conv_explicit_params p)                                        \
    {                                                                                                                  \
        conv_explicit_gather<T, block>(matrix, bias, tensor, p);                                                       \
    }
#define ADN_VARIANT_CL(...)
#include "../common/engines/conv_explicit.variants"
