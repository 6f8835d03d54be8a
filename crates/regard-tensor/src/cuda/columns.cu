// The sum of each column of a matrix: the gradient of a bias.
//
// A block takes a band of rows and, for each of its 32 lanes, one vector of columns; its warps take every eighth row of
// the band. The warps' sums are added in order. Several bands leave rows of partial sums, which `join` adds up: few rows, so
// that 32 warps have a few each and wait for memory once.

#include "block.cuh"
#include "functions.cuh"

// Adds the sums of all warps and writes them to row blockIdx.y of `out`. Each thread finishes a column of the block's.
template <int WARPS, int N> __device__ void finish(const float (&total)[N], float* out, u64 columns, bool add) {
    __shared__ float of_warps[WARPS][WARP * N];
    for (int i = 0; i < N; i++) of_warps[warp()][lane() * N + i] = total[i];
    __syncthreads();
    u64 column = u64(blockIdx.x) * WARP * N + threadIdx.x;
    if (threadIdx.x >= WARP * N || column >= columns) return;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += of_warps[w][threadIdx.x];
    out += blockIdx.y * columns + column;
    *out = sum + (add ? *out : 0.0f);
}

template <int WARPS, typename T>
__device__ void sums(const T* x, float* out, u64 rows, u64 columns, u64 band, bool add) {
    constexpr int N = Vector<T>::N;
    u64 column = (u64(blockIdx.x) * WARP + lane()) * N;
    u64 end = min((blockIdx.y + 1) * band, rows);
    bool whole = aligned(x) && columns % N == 0;
    float total[N] = {};
    if (column < columns && whole) {
#pragma unroll 8
        for (u64 row = blockIdx.y * band + warp(); row < end; row += WARPS) {
            Vector<T> v = load(x + row * columns + column);
            for (int i = 0; i < N; i++) total[i] += v[i];
        }
    } else if (column < columns) {
        for (u64 row = blockIdx.y * band + warp(); row < end; row += WARPS) {
            Vector<T> v = load_some(x + row * columns, column, columns, false);
            for (int i = 0; i < N; i++) total[i] += v[i];
        }
    }
    finish<WARPS>(total, out, columns, add);
}

// The gradient of f(x + bias): out = f'·g, and the sums of its columns.
template <template <typename> class F, typename T>
__device__ void function_sums(const T* saved, const T* g, T* out, float* total_out, u64 rows, u64 columns, u64 band) {
    using Function = F<typename MathOf<T>::M>;
    constexpr int N = Vector<T>::N, WARPS = 8;
    u64 column = (u64(blockIdx.x) * WARP + lane()) * N;
    u64 end = min((blockIdx.y + 1) * band, rows);
    bool whole = aligned(saved, g, out) && columns % N == 0;
    float total[N] = {};
    auto gradient = [&](const Vector<T>& v, const Vector<T>& h) {
        float x[N];
        for (int i = 0; i < N; i++) x[i] = Function::gradient(v[i], h[i]);
        Vector<T> y = to_vector<T>(x);
        for (int i = 0; i < N; i++) total[i] += y[i];
        return y;
    };
    if (column < columns && whole) {
#pragma unroll 2
        for (u64 row = blockIdx.y * band + warp(); row < end; row += WARPS) {
            u64 at = row * columns + column;
            Vector<T> v = load(saved + at), h = load(g + at);
            store_whole(out + at, gradient(v, h));
        }
    } else if (column < columns) {
        for (u64 row = blockIdx.y * band + warp(); row < end; row += WARPS) {
            u64 start = row * columns;
            Vector<T> v = load_some(saved + start, column, columns, false);
            Vector<T> h = load_some(g + start, column, columns, false);
            store_some(out + start, column, columns, false, gradient(v, h));
        }
    }
    finish<WARPS>(total, total_out, columns, false);
}

#define SUMS(name, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        sums_##name(const T* x, float* out, u64 rows, u64 columns, u64 band, bool add) {                             \
        sums<8, T>(x, out, rows, columns, band, add);                                                                \
    }

SUMS(f32, float)
SUMS(bf16, bf16)

extern "C" __global__ void __launch_bounds__(1024)
    join(const float* x, float* out, u64 rows, u64 columns, bool add) {
    sums<32, float>(x, out, rows, columns, rows, add);
}

#define KERNELS(name, F, type, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        function_sums_##name##_##type(const T* saved, const T* g, T* out, float* totals, u64 rows, u64 columns,      \
                                      u64 band) {                                                                    \
        function_sums<F, T>(saved, g, out, totals, rows, columns, band);                                             \
    }

#define FUNCTION(name, F)                                                                                            \
    KERNELS(name, F, f32, float)                                                                                     \
    KERNELS(name, F, bf16, bf16)

FOR_FUNCTIONS(FUNCTION)
