// SPDX-License-Identifier: Apache-2.0
// architectures: 80 90 100 120
// kernels_cuda/conv_mma.cu: the gathered matrix product of conv_igemm.cu on tensor cores (mma.sync): f16 and bf16, and
// f32 rounded to tf32, with sums in f32.
//
// Stages   A stage is 64 bytes of depths of every row of A and column of B, in shared memory, where the four pieces of a
//          line change places by its number, so that neither the stores nor ldmatrix meet bank conflicts. Depths are
//          decoded into a table as in conv_igemm.cu.
// Kernels  conv_mma_pipe, where depths lie side by side in both operands: asynchronous copies of 16 bytes, several stages
//          in flight. conv_mma_pipe_a, where the rows of A lie side by side instead (the filter of backward data, channels
//          last), and conv_mma_pipe_ab, where the columns of B do so too (backward filter, channels last): halves only;
//          a stage holds 32 depths of such a side, and ldmatrix turns it. conv_mma, for all layouts: a thread gathers
//          half a line of each side into registers while the stage before is multiplied. conv_mma_sum adds splits up.
// Warps    ROWS / DOWN by COLUMNS / ACROSS outputs a warp, in pieces of 16 x 8. A step of 32 bytes of depth is one mma:
//          16 halves or 8 floats; ldmatrix moves both alike.
// Limits   As conv_igemm.cu.
#include "conv_sum.cuh"

typedef unsigned int word;

__device__ __forceinline__ void multiply(float (&d)[4], const word (&a)[4], word b0, word b1, const __half *)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply(float (&d)[4], const word (&a)[4], word b0, word b1, const __nv_bfloat16 *)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply(float (&d)[4], const word (&a)[4], word b0, word b1, const float *)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 16-byte matrices; thread t gives the address of line t % 8 of matrix t / 8.
__device__ __forceinline__ void load_matrices(word (&r)[4], const void *line)
{
    const word at = (word)__cvta_generic_to_shared(line);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// The same of matrices that lie with rows and columns exchanged.
__device__ __forceinline__ void load_turned(word (&r)[4], const void *line)
{
    const word at = (word)__cvta_generic_to_shared(line);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// Element i of 16 bytes held in registers.
__device__ __forceinline__ void put(uint4 &v, int i, __half x)
{
    word *w = &v.x + i / 2;
    *w = i % 2 ? *w & 0xffffu | (word)__half_as_ushort(x) << 16 : *w & 0xffff0000u | __half_as_ushort(x);
}
__device__ __forceinline__ void put(uint4 &v, int i, __nv_bfloat16 x)
{
    word *w = &v.x + i / 2;
    *w = i % 2 ? *w & 0xffffu | (word)__bfloat16_as_ushort(x) << 16 : *w & 0xffff0000u | __bfloat16_as_ushort(x);
}
__device__ __forceinline__ void put(uint4 &v, int i, float x) { (&v.x)[i] = __float_as_uint(x); }

// What mma reads of a fragment: floats rounded to tf32, halves as they are.
template <typename T> __device__ __forceinline__ void round_operands(word (&r)[4])
{
    if constexpr (sizeof(T) == 4)
#pragma unroll
        for (int i = 0; i < 4; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(__uint_as_float(r[i])));
}

// Sixteen bytes from global to shared memory, or zeros, behind the thread's back.
__device__ __forceinline__ void copy_piece(uint4 *to, const void *from, bool live)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((word)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(live ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void close_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> __device__ __forceinline__ void wait_but_for()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// Where piece i of line `number` lies: eight lines that are read together meet all banks.
__device__ __forceinline__ int swizzled(int i, int number) { return i ^ (number / 2 & 3); }

// A side of a stage: 64 bytes of depths a line, or, turned, 32 depths of eight lines a piece.
template <int LINES, bool TURNED> struct mma_side {
    static constexpr int PIECES = LINES / 8;
    uint4 piece[LINES * 4];

    __device__ uint4 *line(int i, int number) { return &piece[number * 4 + swizzled(i, number)]; }
    __device__ const uint4 *line(int i, int number) const { return &piece[number * 4 + swizzled(i, number)]; }
    // Pieces of eight depths that are read together meet all banks.
    __device__ uint4 *turned(int i, int depth) { return &piece[depth * PIECES + (i ^ (depth & 7))]; }
    __device__ const uint4 *turned(int i, int depth) const { return &piece[depth * PIECES + (i ^ (depth & 7))]; }

    // Four matrices: lines first + 0-7 and 8-15 at each of two pieces of depths; LINES_FIRST says which vary faster.
    template <bool LINES_FIRST> __device__ void load(word (&r)[4], int first, int step) const
    {
        const int lane = threadIdx.x % 32, faster = lane / 8 % 2, slower = lane / 16;
        const int lines = LINES_FIRST ? faster : slower, depths = LINES_FIRST ? slower : faster;
        if constexpr (TURNED) load_turned(r, turned(first / 8 + lines, (step + depths) * 8 + lane % 8));
        else load_matrices(r, line(step + depths, first + lines * 8 + lane % 8));
    }
};

// The outputs of a warp.
template <typename T, int ROWS, int COLUMNS, int DOWN, int ACROSS> struct mma_warp {
    static constexpr int THREADS = 32 * DOWN * ACROSS, DEPTH = 64 / sizeof(T), PER = 16 / sizeof(T);
    static constexpr int TABLED = THREADS / DEPTH; // stages of a table
    static constexpr int TM = ROWS / DOWN / 16, TN = COLUMNS / ACROSS / 8;
    static_assert(TN % 2 == 0, "B is read 16 columns at a time");

    float sum[TM][TN][4];

    __device__ mma_warp() : sum{} {}
    __device__ static int first_row() { return threadIdx.x / 32 / ACROSS * (16 * TM); }
    __device__ static int first_column() { return threadIdx.x / 32 % ACROSS * (8 * TN); }

    __device__ static void prepare(adn_igemm_depth *table, int k, const adn_igemm_tile &t, const adn_conv_igemm_params &p)
    {
        const int depth = t.depth_begin + k * DEPTH + (int)threadIdx.x;
        if (k % TABLED != 0) return;
        if (depth < t.depth_end) table[threadIdx.x] = adn_igemm_depth_of(depth, &t, &p);
        __syncthreads();
    }

    template <typename A, typename B> __device__ void multiply_stage(const A &a, const B &b)
    {
#pragma unroll
        for (int step = 0; step < 4; step += 2) {
            word af[TM][4], bf[TN / 2][4];
#pragma unroll
            for (int i = 0; i < TM; i++) {
                a.template load<true>(af[i], first_row() + 16 * i, step);
                round_operands<T>(af[i]);
            }
#pragma unroll
            for (int j = 0; j < TN / 2; j++) {
                b.template load<false>(bf[j], first_column() + 16 * j, step);
                round_operands<T>(bf[j]);
            }
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    multiply(sum[i][j], af[i], bf[j / 2][j % 2 * 2], bf[j / 2][j % 2 * 2 + 1], static_cast<const T *>(0));
        }
    }

    __device__ void store(const adn_igemm_tile &t, const adn_conv_places &m, float *parts, const adn_conv_igemm_params &p)
    {
        const int lane = threadIdx.x % 32;
        if (p.splits > 1) parts += t.split * p.part + (adn_i64)t.group * p.rows * p.columns;
#pragma unroll
        for (int j = 0; j < 2 * TN; j++) {
            const int column = t.column + first_column() + j / 2 * 8 + lane % 4 * 2 + j % 2;
            const adn_i64 to = adn_igemm_output(column, &t, &p);
#pragma unroll
            for (int i = 0; i < 2 * TM; i++) {
                const int row = t.row + first_row() + i / 2 * 16 + lane / 4 + i % 2 * 8;
                const float v = sum[i / 2][j / 2][i % 2 * 2 + j % 2];
                if (to == ADN_IGEMM_NOWHERE || row >= p.rows) continue;
                const adn_i64 at = t.y_origin + to + row * p.y_row;
                if (p.splits > 1) parts[(adn_i64)row * p.columns + column] = v;
                else adn_conv_output<T>::store(v, (adn_i64)t.group * p.rows + row, at, at, m, p.e);
            }
        }
    }
};

// A column of B: coordinates and place of its first element.
template <typename T> struct mma_column {
    const T *b;
    int z, y, x;
    bool live;

    __device__ void init(const T *base, int column, const adn_igemm_tile &t, const adn_conv_igemm_params &p)
    {
        live = column < p.columns;
        const adn_digits d = adn_igemm_column(live ? column : 0, &p);
        z = d.z * p.axis[0].column_step + t.f[0].origin;
        y = d.y * p.axis[1].column_step + t.f[1].origin;
        x = d.x * p.axis[2].column_step + t.f[2].origin;
        b = base + (t.group * p.b_group + d.u * p.b_column_u + z * p.axis[0].b + y * p.axis[1].b + x * p.axis[2].b);
    }
    __device__ bool inside(const adn_igemm_depth &r, const adn_conv_igemm_params &p) const
    {
        return live & ((unsigned)(z + r.z) < (unsigned)p.axis[0].limit) & ((unsigned)(y + r.y) < (unsigned)p.axis[1].limit) &
               ((unsigned)(x + r.x) < (unsigned)p.axis[2].limit);
    }
};

// ---- conv_mma: any layout ----

template <typename T, int ROWS, int COLUMNS, int DOWN, int ACROSS>
struct mma_gather : mma_warp<T, ROWS, COLUMNS, DOWN, ACROSS> {
    typedef mma_warp<T, ROWS, COLUMNS, DOWN, ACROSS> warp;
    static constexpr int DEPTH = warp::DEPTH, PER = warp::PER;
    static_assert(warp::THREADS == 2 * ROWS && ROWS == COLUMNS, "a thread loads half a line of each side");

    struct buffers {
        mma_side<ROWS, false> a[2];
        mma_side<COLUMNS, false> b[2];
        adn_igemm_depth table[warp::THREADS];
        adn_igemm_tile t;
    };

    buffers &s;
    const adn_conv_igemm_params &p;
    const T *a;
    mma_column<T> column;
    int line, half; // this thread's line, and which half of its 64 bytes
    bool a_live;
    uint4 av[2], bv[2];

    __device__ mma_gather(buffers &shared, const T *a_base, const T *b_base, const adn_conv_igemm_params &params)
        : s(shared), p(params)
    {
        line = threadIdx.x % ROWS;
        half = threadIdx.x / ROWS;
        a_live = s.t.row + line < p.rows;
        a = a_base + (s.t.a_origin + (s.t.row + line) * p.a_row);
        column.init(b_base, s.t.column + line, s.t, p);
    }

    __device__ void fetch(int k)
    {
        const int left = s.t.depth_end - s.t.depth_begin - k * DEPTH;
        const adn_igemm_depth *row = s.table + k % warp::TABLED * DEPTH;
        warp::prepare(s.table, k, s.t, p);
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const int first = (half * 2 + v) * PER;
            av[v] = bv[v] = make_uint4(0, 0, 0, 0);
            if (p.a_vector) {
                if (a_live && first < left) av[v] = *reinterpret_cast<const uint4 *>(a + row[first].a);
            } else {
#pragma unroll
                for (int i = 0; i < PER; i++)
                    if (a_live && first + i < left) put(av[v], i, a[row[first + i].a]);
            }
            if (p.b_vector) {
                if (first < left && column.inside(row[first], p))
                    bv[v] = *reinterpret_cast<const uint4 *>(column.b + row[first].b);
            } else {
#pragma unroll
                for (int i = 0; i < PER; i++)
                    if (first + i < left && column.inside(row[first + i], p)) put(bv[v], i, column.b[row[first + i].b]);
            }
        }
    }

    __device__ void stage(int buffer)
    {
#pragma unroll
        for (int v = 0; v < 2; v++) {
            *s.a[buffer].line(half * 2 + v, line) = av[v];
            *s.b[buffer].line(half * 2 + v, line) = bv[v];
        }
    }

    __device__ void run(int stages)
    {
        if (stages > 0) {
            fetch(0);
            stage(0);
            __syncthreads();
        }
        for (int k = 0; k < stages; k++) {
            if (k + 1 < stages) fetch(k + 1);
            this->multiply_stage(s.a[k & 1], s.b[k & 1]);
            if (k + 1 < stages) stage((k & 1) ^ 1);
            __syncthreads();
        }
    }
};

// ---- conv_mma_pipe: 16 bytes at a time ----

// Which pieces of a side's stage a thread copies: COUNT of them, lines (turned: depths) APART of each other.
template <int LINES, bool TURNED, int THREADS> struct mma_share {
    static constexpr int COUNT = LINES * 4 / THREADS, ACROSS = TURNED ? LINES / 8 : 4, APART = THREADS / ACROSS;
    static constexpr int LINES_APART = TURNED ? 0 : APART, DEPTHS_APART = TURNED ? APART : 0;
    static_assert(COUNT * THREADS == LINES * 4 && APART % 8 == 0, "whole shares, swizzled alike");
    // Line of the tile, depth of the stage and place of the first.
    __device__ static int line() { return TURNED ? threadIdx.x % ACROSS * 8 : threadIdx.x / ACROSS; }
    __device__ static int depth(int per) { return TURNED ? threadIdx.x / ACROSS : threadIdx.x % ACROSS * per; }
    __device__ static uint4 *place(mma_side<LINES, TURNED> &side)
    {
        return TURNED ? side.turned(threadIdx.x % ACROSS, threadIdx.x / ACROSS)
                      : side.line(threadIdx.x % ACROSS, threadIdx.x / ACROSS);
    }
    static constexpr int PLACES_APART = APART * ACROSS;
};

template <typename T, int ROWS, int COLUMNS, int DOWN, int ACROSS, int STAGES, bool A_TURNED, bool B_TURNED>
struct mma_pipe : mma_warp<T, ROWS, COLUMNS, DOWN, ACROSS> {
    typedef mma_warp<T, ROWS, COLUMNS, DOWN, ACROSS> warp;
    typedef mma_share<ROWS, A_TURNED, warp::THREADS> a_share;
    typedef mma_share<COLUMNS, B_TURNED, warp::THREADS> b_share;
    static constexpr int DEPTH = warp::DEPTH, PER = warp::PER;
    static_assert(sizeof(T) == 2 || (!A_TURNED && !B_TURNED), "ldmatrix turns elements of two bytes");

    struct buffers {
        mma_side<ROWS, A_TURNED> a[STAGES];
        mma_side<COLUMNS, B_TURNED> b[STAGES];
        adn_igemm_depth table[warp::THREADS];
        adn_igemm_tile t;
    };
    static_assert(sizeof(buffers) <= STAGES * (ROWS + COLUMNS) * 64 + warp::THREADS * 32 + 256, "as the host asks for");

    buffers &s;
    const adn_conv_igemm_params &p;
    const T *a; // of the first line
    mma_column<T> column[B_TURNED ? 1 : b_share::COUNT];

    __device__ mma_pipe(buffers &shared, const T *a_base, const T *b_base, const adn_conv_igemm_params &params)
        : s(shared), p(params)
    {
        a = a_base + (s.t.a_origin + (s.t.row + a_share::line()) * p.a_row);
#pragma unroll
        for (int i = 0; i < (B_TURNED ? 1 : b_share::COUNT); i++)
            column[i].init(b_base, s.t.column + b_share::line() + i * b_share::LINES_APART, s.t, p);
    }

    __device__ void copy_a(uint4 *to, const adn_igemm_depth *row, int left)
    {
        const int depth = a_share::depth(PER), rows = p.rows - s.t.row - a_share::line();
        adn_i64 from = row[depth].a;
#pragma unroll
        for (int i = 0; i < a_share::COUNT; i++) {
            const bool there = (depth + i * a_share::DEPTHS_APART < left) & (i * a_share::LINES_APART < rows);
            if (A_TURNED && i > 0) from = row[depth + i * a_share::DEPTHS_APART].a;
            copy_piece(to + i * a_share::PLACES_APART, there ? a + from : a, there);
            from += a_share::LINES_APART * p.a_row;
        }
    }
    __device__ void copy_b(uint4 *to, const adn_igemm_depth *row, int left)
    {
        const int depth = b_share::depth(PER);
        adn_igemm_depth r = row[depth];
#pragma unroll
        for (int i = 0; i < b_share::COUNT; i++) {
            const mma_column<T> &c = column[B_TURNED ? 0 : i];
            if (B_TURNED && i > 0) r = row[depth + i * b_share::DEPTHS_APART];
            const bool there = (depth + i * b_share::DEPTHS_APART < left) & c.inside(r, p);
            copy_piece(to + i * b_share::PLACES_APART, there ? c.b + r.b : a, there);
        }
    }

    // The copies of stage k; none behind the end, but a group is closed in any case.
    __device__ void issue(int k, int stages)
    {
        if (k < stages) {
            const adn_igemm_depth *row = s.table + k % warp::TABLED * DEPTH;
            const int left = s.t.depth_end - s.t.depth_begin - k * DEPTH;
            warp::prepare(s.table, k, s.t, p);
            copy_a(a_share::place(s.a[k % STAGES]), row, left);
            copy_b(b_share::place(s.b[k % STAGES]), row, left);
        }
        close_stage();
    }

    __device__ void run(int stages)
    {
        for (int k = 0; k < STAGES - 1; k++) issue(k, stages);
        for (int k = 0; k < stages; k++) {
            wait_but_for<STAGES - 2>();
            __syncthreads();
            issue(k + STAGES - 1, stages);
            this->multiply_stage(s.a[k % STAGES], s.b[k % STAGES]);
        }
        wait_but_for<0>();
    }
};

// ---- kernels ----

template <typename T, typename Tile, int ROWS, int COLUMNS>
__device__ void conv_mma(typename Tile::buffers &buffers, const T *a, const T *b, const adn_conv_places &m, float *parts,
                         const adn_conv_igemm_params &p)
{
    for (unsigned number = blockIdx.x; number < (unsigned)p.tiles; number += gridDim.x) {
        __syncthreads();
        if (threadIdx.x == 0) buffers.t = adn_igemm_tile_of(number, ROWS, COLUMNS, &p);
        __syncthreads();
        Tile tile(buffers, a, b, p);
        const int depth = p.e.alpha == 0.0f ? 0 : buffers.t.depth_end - buffers.t.depth_begin;
        tile.run(depth > 0 ? (depth + Tile::DEPTH - 1) / Tile::DEPTH : 0);
        tile.store(buffers.t, m, parts, p);
    }
}

#define ADN_ENTRY_conv_mma(name, T, block, rows, columns, depth, down, across, f)                                      \
    extern "C" __global__ void __launch_bounds__(block, 512 / block)                                                   \
        name(const T *a, const T *b, ADN_PLACES, float *parts, const __grid_constant__ adn_conv_igemm_params p)        \
    {                                                                                                                  \
        typedef mma_gather<T, rows, columns, down, across> tile;                                                       \
        static_assert(tile::warp::THREADS == block && tile::DEPTH == depth, "constants of the row");                   \
        __shared__ alignas(16) tile::buffers buffers;                                                                  \
        conv_mma<T, tile, rows, columns>(buffers, a, b, adn_conv_places{ bias, z, scales, y }, parts, p);              \
    }
#define ADN_PIPE(name, T, block, rows, columns, depth, down, across, stages, a_turned, b_turned)                       \
    extern "C" __global__ void __launch_bounds__(block, 512 / block)                                                   \
        name(const T *a, const T *b, ADN_PLACES, float *parts, const __grid_constant__ adn_conv_igemm_params p)        \
    {                                                                                                                  \
        typedef mma_pipe<T, rows, columns, down, across, stages, a_turned, b_turned> tile;                             \
        static_assert(tile::warp::THREADS == block && tile::DEPTH == depth, "constants of the row");                   \
        extern __shared__ uint4 dynamic[];                                                                             \
        conv_mma<T, tile, rows, columns>(*reinterpret_cast<tile::buffers *>(dynamic), a, b,                            \
                                         adn_conv_places{ bias, z, scales, y }, parts, p);                             \
    }
#define ADN_ENTRY_conv_mma_pipe(...) ADN_PIPE(__VA_ARGS__, false, false)
#define ADN_ENTRY_conv_mma_pipe_a(...) ADN_PIPE(__VA_ARGS__, true, false)
#define ADN_ENTRY_conv_mma_pipe_ab(...) ADN_PIPE(__VA_ARGS__, true, true)
#define ADN_ENTRY_conv_mma_sum(name, T, block, a, b, c, d, e, f) ADN_CONV_SUM(name, T, block)
#include "../common/engines/conv_mma.variants"
