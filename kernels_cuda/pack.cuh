// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/pack.cuh: V neighbouring elements loaded and stored at once, converted to and from float. Addresses are
// aligned to min(16, V * sizeof(T)) bytes, which plans promise (adn_walk_fits).
#pragma once
#include "prelude.cuh"

template <typename T, int V> struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) adn_pack {
    T at[V];
};

template <typename T, int V> __device__ __forceinline__ adn_pack<T, V> adn_read_pack(const T *p)
{
    return *reinterpret_cast<const adn_pack<T, V> *>(p);
}

template <typename T, int V> __device__ __forceinline__ void adn_write_pack(T *p, const adn_pack<T, V> &pack)
{
    *reinterpret_cast<adn_pack<T, V> *>(p) = pack;
}

// v = the V elements from p[i] on; with splat p[i], V times.
template <typename T, int V>
__device__ __forceinline__ void adn_load_pack(const T *p, adn_i64 i, bool splat, float (&v)[V])
{
    if (V > 1 && !splat) {
        const adn_pack<T, V> pack = adn_read_pack<T, V>(p + i);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = adn_load(pack.at, k);
    } else {
        const float one = adn_load(p, i);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = one;
    }
}

template <typename T, int V> __device__ __forceinline__ void adn_store_pack(T *p, adn_i64 i, const float (&v)[V])
{
    adn_pack<T, V> pack;
#pragma unroll
    for (int k = 0; k < V; k++) adn_store(pack.at, k, v[k]);
    adn_write_pack<T, V>(p + i, pack);
}

// The same with an anydnn_dtype known at run time: 1 f32, 2 f16, 3 bf16.
template <int V>
__device__ __forceinline__ void adn_load_pack_any(const void *p, int dtype, adn_i64 i, bool splat, float (&v)[V])
{
    if (dtype == 1) adn_load_pack<float, V>((const float *)p, i, splat, v);
    else if (dtype == 2) adn_load_pack<__half, V>((const __half *)p, i, splat, v);
    else adn_load_pack<__nv_bfloat16, V>((const __nv_bfloat16 *)p, i, splat, v);
}

template <int V> __device__ __forceinline__ void adn_store_pack_any(void *p, int dtype, adn_i64 i, const float (&v)[V])
{
    if (dtype == 1) adn_store_pack<float, V>((float *)p, i, v);
    else if (dtype == 2) adn_store_pack<__half, V>((__half *)p, i, v);
    else adn_store_pack<__nv_bfloat16, V>((__nv_bfloat16 *)p, i, v);
}
