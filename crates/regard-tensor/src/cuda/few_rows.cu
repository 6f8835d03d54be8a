// f(x·W + b) for a few rows of x, such as the tokens of one step of a generation.
//
// Such a product reads each weight once and computes hardly anything: it is as fast as memory. So a block takes few outputs,
// that many blocks read at once, and a thread asks for several vectors of weights before it waits for the first: also before
// it waits for the kernel that computes x, unless the weights are computed too. So with the bias. Sums are taken in an order
// fixed by the sizes.

#include "block.cuh"
#include "functions.cuh"

constexpr u32 THREADS = 256, WARPS = THREADS / WARP;

struct Sizes {
    u32 inputs, outputs;
    u32 function; // its number in FOR_FUNCTIONS, from 1; none: 0
    bool ahead;   // whether weights and bias may be read before earlier kernels have ended
};

// The sum is rounded before the function, as it would be if both were kernels of their own.
template <typename T> __device__ void finish(float sum, T* out, T* before, u32 row, u32 column, const Sizes& s) {
    using M = typename MathOf<T>::M;
    u64 at = u64(row) * s.outputs + column;
    T rounded = from_float<T>(sum);
    if (before) before[at] = rounded;
    if (s.function == 0) {
        out[at] = rounded;
        return;
    }
    float x = to_float(rounded), y = x;
    u32 number = 0;
#define APPLY(name, F)                                                                                               \
    if (++number == s.function) y = F<M>::value(x);
    FOR_FUNCTIONS(APPLY)
    out[at] = from_float<T>(y);
}

// Weights (outputs, inputs): a warp reads P rows of them, all of its lanes one row at a time.
template <typename T, int R, int P>
__device__ void by_rows(const T* x, const T* weight, const T* bias, T* out, T* before, const Sizes& s) {
    constexpr int N = Vector<T>::N, STEPS = P == 1 ? 8 : 4;
    u32 first = (blockIdx.x * WARPS + warp()) * P, vectors = s.inputs / N;
    let_next_begin();
    if (!s.ahead) wait_for_earlier();
    if (first >= s.outputs) return;
    float sum[P][R] = {}, added[P];
#pragma unroll
    for (int p = 0; p < P; p++) added[p] = bias && first + p < s.outputs ? to_float(bias[first + p]) : 0.0f;
    for (u32 base = lane(); base < vectors; base += WARP * STEPS) {
        Vector<T> w[STEPS][P];
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int p = 0; p < P; p++) {
                u32 i = base + step * WARP, row = min(first + p, s.outputs - 1);
                if (i < vectors) w[step][p] = load(weight + u64(row) * s.inputs + i * N);
            }
        wait_for_earlier();
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 i = base + step * WARP;
            if (i >= vectors) break;
#pragma unroll
            for (int r = 0; r < R; r++) {
                Vector<T> a = load(x + u64(r) * s.inputs + i * N);
#pragma unroll
                for (int p = 0; p < P; p++)
#pragma unroll
                    for (int j = 0; j < N; j++) sum[p][r] = fmaf(a[j], w[step][p][j], sum[p][r]);
            }
        }
    }
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int r = 0; r < R; r++) {
            float all = warp_sum(sum[p][r]);
            if (lane() == 0 && first + p < s.outputs) finish(all + added[p], out, before, r, first + p, s);
        }
}

// Weights (inputs, outputs): a block takes V neighbouring vectors of columns, and its threads divide the rows among them.
template <typename T, int R, int V>
__device__ void by_columns(const T* x, const T* weight, const T* bias, T* out, T* before, const Sizes& s) {
    constexpr int N = Vector<T>::N, SLICES = THREADS / V, STEPS = V == 1 && R < 4 ? 12 : 8;
    static_assert(R * V * N <= THREADS); // a thread finishes at most one output
    __shared__ float sums[WARPS][R][V * N];
    u32 vector = blockIdx.x * V + threadIdx.x % V, slice = threadIdx.x / V;
    float sum[R][N] = {};
    let_next_begin();
    if (!s.ahead) wait_for_earlier();
    u32 row = threadIdx.x / (V * N), at = threadIdx.x % (V * N), column = blockIdx.x * V * N + at;
    bool finishes = row < R && column < s.outputs;
    float added = bias && finishes ? to_float(bias[column]) : 0.0f;
    if (vector < s.outputs / N)
        for (u32 base = slice; base < s.inputs; base += SLICES * STEPS) {
            Vector<T> w[STEPS];
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                u32 i = base + step * SLICES;
                if (i < s.inputs) w[step] = load(weight + u64(i) * s.outputs + vector * N);
            }
            wait_for_earlier();
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                u32 i = base + step * SLICES;
                if (i >= s.inputs) break;
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float a = to_float(x[u64(r) * s.inputs + i]);
#pragma unroll
                    for (int j = 0; j < N; j++) sum[r][j] = fmaf(a, w[step][j], sum[r][j]);
                }
            }
        }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            for (int other = WARP / 2; other >= V; other /= 2) sum[r][j] += __shfl_xor_sync(~0u, sum[r][j], other);
            if (lane() < V) sums[warp()][r][lane() * N + j] = sum[r][j];
        }
    __syncthreads();
    if (!finishes) return;
    float all = 0.0f;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) all += sums[w][row][at];
    finish(all + added, out, before, row, column, s);
}

#define KERNEL(kernel, type, T, rows, many)                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                            \
        kernel##_##type##_##rows##_##many(const T* x, const T* weight, const T* bias, T* out, T* before, u32 inputs, \
                                          u32 outputs, u32 function, bool ahead) {                                   \
        kernel<T, rows, many>(x, weight, bias, out, before, {inputs, outputs, function, ahead});                     \
    }

#define ROWS(rows)                                                                                                   \
    KERNEL(by_rows, f32, float, rows, 1)                                                                             \
    KERNEL(by_rows, f32, float, rows, 4)                                                                             \
    KERNEL(by_rows, bf16, bf16, rows, 1)                                                                             \
    KERNEL(by_rows, bf16, bf16, rows, 4)                                                                             \
    KERNEL(by_columns, f32, float, rows, 1)                                                                          \
    KERNEL(by_columns, f32, float, rows, 2)                                                                          \
    KERNEL(by_columns, f32, float, rows, 8)                                                                          \
    KERNEL(by_columns, bf16, bf16, rows, 1)                                                                          \
    KERNEL(by_columns, bf16, bf16, rows, 2)                                                                          \
    KERNEL(by_columns, bf16, bf16, rows, 8)

ROWS(1)
ROWS(2)
ROWS(4)
