// Layer norm and RMS norm over rows, with an optional residual sum before them.
//
//   s = x + residual        n = (s - mean)·inverse        y = n·weight + bias
//
// A warp takes a row and keeps it in registers, CHUNKS vectors a lane, so that memory is read once. Rows too wide or
// oddly aligned for that go to the `wide` kernels, where a block takes a row and reads it again from the cache.
// Weights, biases and moments are f32 whatever the type of the rows.

#include "block.cuh"

constexpr u64 FEW = 8; // rows, as in the library

struct Forward {
    const float* weight;
    const float* bias; // may be null
    float* mean;
    float* inverse;
    u64 rows;
    u32 width;
    float epsilon;
    bool centred; // layer norm, else RMS norm
};

template <typename T, int CHUNKS>
__device__ void forward(const T* x, const T* residual, T* sum, T* y, const Forward& f) {
    constexpr int N = Vector<T>::N;
    u64 row = u64(blockIdx.x) * (blockDim.x / WARP) + warp();
    let_next_begin();
    // With few rows nothing else hides how long the parameters take to arrive.
    if (row < f.rows && f.rows <= FEW)
        for (u32 column = lane() * N; column < f.width; column += WARP * N) {
            prefetch(f.weight + column);
            if (f.bias) prefetch(f.bias + column);
        }
    wait_for_earlier();
    if (row >= f.rows) return;
    u64 start = row * f.width;
    float s[CHUNKS][N];
    float total = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        u32 column = (c * WARP + lane()) * N;
        if (column < f.width) {
            Vector<T> v = load(x + start + column);
            if (residual) {
                Vector<T> r = load(residual + start + column);
                for (int i = 0; i < N; i++) v.set(i, v[i] + r[i]);
                // The norm sees the sum as it is stored, so that the backward pass can start from it.
                store(sum + start + column, v);
            }
            for (int i = 0; i < N; i++) total += s[c][i] = v[i];
        } else {
            for (int i = 0; i < N; i++) s[c][i] = 0.0f;
        }
    }
    float mean = f.centred ? warp_sum(total) / f.width : 0.0f;
    // Subtracting first avoids the cancellation of E[x²] - mean².
    float squares = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        if ((c * WARP + lane()) * N < f.width)
            for (int i = 0; i < N; i++) squares += (s[c][i] - mean) * (s[c][i] - mean);
    float inverse = rsqrtf(warp_sum(squares) / f.width + f.epsilon);
    if (lane() == 0) {
        f.mean[row] = mean;
        f.inverse[row] = inverse;
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        u32 column = (c * WARP + lane()) * N;
        if (column >= f.width) break;
        Floats<N> weight = load_floats<N>(f.weight + column);
        Floats<N> bias = {};
        if (f.bias) bias = load_floats<N>(f.bias + column);
        Vector<T> v;
        for (int i = 0; i < N; i++) v.set(i, (s[c][i] - mean) * inverse * weight.at[i] + bias.at[i]);
        store(y + start + column, v);
    }
}

template <typename T> __device__ void forward_wide(const T* x, const T* residual, T* sum, T* y, const Forward& f) {
    u64 row = blockIdx.x, start = row * f.width;
    let_next_begin();
    wait_for_earlier();
    const T* s = residual ? sum : x;
    float total = 0.0f;
    for (u32 i = threadIdx.x; i < f.width; i += blockDim.x) {
        if (residual) sum[start + i] = from_float<T>(to_float(x[start + i]) + to_float(residual[start + i]));
        total += to_float(s[start + i]);
    }
    float mean = f.centred ? block_sum(total) / f.width : 0.0f;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < f.width; i += blockDim.x) {
        float away = to_float(s[start + i]) - mean;
        squares += away * away;
    }
    float inverse = rsqrtf(block_sum(squares) / f.width + f.epsilon);
    if (threadIdx.x == 0) {
        f.mean[row] = mean;
        f.inverse[row] = inverse;
    }
    for (u32 i = threadIdx.x; i < f.width; i += blockDim.x) {
        float bias = f.bias ? f.bias[i] : 0.0f;
        y[start + i] = from_float<T>((to_float(s[start + i]) - mean) * inverse * f.weight[i] + bias);
    }
}

// With h = g·weight:  dx = inverse·(h - mean(h) - n·mean(h·n)) + through        (RMS norm has no mean(h))
//                     dweight = Σ g·n        dbias = Σ g
// `through` is the gradient that reaches the residual sum beside the norm; it may be null. Each block takes every
// gridDim.x-th group of rows and leaves its share of dweight and dbias in a row of `partial`: 2·width values.
struct Backward {
    const float* weight;
    const float* mean;
    const float* inverse;
    float* partial;
    u64 rows;
    u32 width;
    bool centred;
};

// A lane's part of the rows that a warp reads. With STAGED, each lane copies its part of the next row to shared memory while
// it works on this one; only the lane itself reads it, so that nobody has to wait for others. Rows too wide for two of them
// are read when they are needed.
template <typename T, int CHUNKS, bool STAGED> struct Parts {
    static constexpr int N = Vector<T>::N, ARRAYS = 3;
    const T* arrays[ARRAYS]; // x, g and what passes by the norm, which may be null
    Vector<T>* room;
    u32 width;

    __device__ Vector<T>* place(u32 turn, int array, int chunk) const {
        return room + (((turn % 2) * ARRAYS + array) * CHUNKS + chunk) * WARP + lane();
    }

    __device__ void fetch(u64 row, u32 turn, bool there) const {
        if constexpr (!STAGED) return;
        if (there) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                u32 column = (c * WARP + lane()) * N;
                if (column >= width) break;
#pragma unroll
                for (int a = 0; a < ARRAYS; a++)
                    if (arrays[a]) copy_async(place(turn, a, c), arrays[a] + row * width + column);
            }
        }
        copy_commit();
    }

    __device__ Vector<T> get(u64 row, u32 turn, int array, int chunk) const {
        if constexpr (STAGED) return *place(turn, array, chunk);
        return load(arrays[array] + row * width + (chunk * WARP + lane()) * N);
    }
};

// The same as in norm.rs.
template <int CHUNKS> constexpr bool is_staged = CHUNKS <= 6;

template <typename T, int CHUNKS>
__device__ void backward(const T* x, const T* g, const T* through, T* dx, const Backward& b) {
    constexpr int N = Vector<T>::N;
    constexpr bool STAGED = is_staged<CHUNKS>;
    extern __shared__ float shared[]; // 2·width sums, then room for rows
    float dweight[CHUNKS][N] = {}, dbias[CHUNKS][N] = {};
    u64 warps = blockDim.x / WARP, step = gridDim.x * warps, row = blockIdx.x * warps + warp();
    Vector<T>* rooms = reinterpret_cast<Vector<T>*>(shared + 2 * b.width);
    Parts<T, CHUNKS, STAGED> parts = {{x, g, through}, rooms + warp() * (2 * 3 * CHUNKS * WARP), b.width};
    parts.fetch(row, 0, row < b.rows);
    for (u32 turn = 0; row < b.rows; row += step, turn++) {
        u64 start = row * b.width;
        float mean = b.mean[row], inverse = b.inverse[row];
        parts.fetch(row + step, turn + 1, row + step < b.rows);
        if constexpr (STAGED) copy_wait<1>();
        float sum_h = 0.0f, sum_hn = 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            u32 column = (c * WARP + lane()) * N;
            if (column >= b.width) break;
            Vector<T> xs = parts.get(row, turn, 0, c), gs = parts.get(row, turn, 1, c);
            Floats<N> weight = load_floats<N>(b.weight + column);
            for (int i = 0; i < N; i++) {
                float gi = gs[i], n = (xs[i] - mean) * inverse, h = gi * weight.at[i];
                sum_h += h;
                sum_hn += h * n;
                dweight[c][i] += gi * n;
                dbias[c][i] += gi;
            }
        }
        float mean_h = b.centred ? warp_sum(sum_h) / b.width : 0.0f;
        float mean_hn = warp_sum(sum_hn) / b.width;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            u32 column = (c * WARP + lane()) * N;
            if (column >= b.width) break;
            Vector<T> xs = parts.get(row, turn, 0, c), gs = parts.get(row, turn, 1, c);
            Floats<N> weight = load_floats<N>(b.weight + column);
            Vector<T> beside = {};
            if (through) beside = parts.get(row, turn, 2, c);
            float out[N];
            for (int i = 0; i < N; i++) {
                float n = (xs[i] - mean) * inverse, h = gs[i] * weight.at[i];
                out[i] = inverse * (h - mean_h - n * mean_hn) + beside[i];
            }
            store(dx + start + column, to_vector<T>(out));
        }
    }
    if constexpr (STAGED) copy_wait<0>();
    // The block's warps add their sums one after another.
    for (u32 w = 0; w < warps; w++) {
        if (warp() == w) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                u32 column = (c * WARP + lane()) * N;
                if (column >= b.width) break;
                for (int i = 0; i < N; i++) {
                    float* to = shared + column + i;
                    to[0] = dweight[c][i] + (w ? to[0] : 0.0f);
                    to[b.width] = dbias[c][i] + (w ? to[b.width] : 0.0f);
                }
            }
        }
        __syncthreads();
    }
    for (u32 i = threadIdx.x; i < 2 * b.width; i += blockDim.x) b.partial[u64(blockIdx.x) * 2 * b.width + i] = shared[i];
}

// A block takes every gridDim.x-th row. The sums of columns lie in `partial`, each value touched by one thread.
template <typename T> __device__ void backward_wide(const T* x, const T* g, const T* through, T* dx, const Backward& b) {
    float* partial = b.partial + u64(blockIdx.x) * 2 * b.width;
    for (u32 i = threadIdx.x; i < b.width; i += blockDim.x) partial[i] = partial[b.width + i] = 0.0f;
    for (u64 row = blockIdx.x; row < b.rows; row += gridDim.x) {
        u64 start = row * b.width;
        float mean = b.mean[row], inverse = b.inverse[row], sum_h = 0.0f, sum_hn = 0.0f;
        for (u32 i = threadIdx.x; i < b.width; i += blockDim.x) {
            float gi = to_float(g[start + i]), n = (to_float(x[start + i]) - mean) * inverse, h = gi * b.weight[i];
            sum_h += h;
            sum_hn += h * n;
            partial[i] += gi * n;
            partial[b.width + i] += gi;
        }
        float mean_h = block_sum(sum_h) / b.width * (b.centred ? 1.0f : 0.0f);
        float mean_hn = block_sum(sum_hn) / b.width;
        for (u32 i = threadIdx.x; i < b.width; i += blockDim.x) {
            float n = (to_float(x[start + i]) - mean) * inverse, h = to_float(g[start + i]) * b.weight[i];
            float beside = through ? to_float(through[start + i]) : 0.0f;
            dx[start + i] = from_float<T>(inverse * (h - mean_h - n * mean_hn) + beside);
        }
    }
}

#define KERNELS(suffix, T, forward_body, backward_body)                                                              \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        forward_##suffix(const T* x, const T* residual, T* sum, T* y, const float* weight, const float* bias,        \
                         float* mean, float* inverse, u64 rows, u32 width, float epsilon, bool centred) {            \
        forward_body(x, residual, sum, y, {weight, bias, mean, inverse, rows, width, epsilon, centred});             \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        backward_##suffix(const T* x, const T* g, const T* through, T* dx, const float* weight, const float* mean,   \
                          const float* inverse, float* partial, u64 rows, u32 width, bool centred) {                 \
        backward_body(x, g, through, dx, {weight, mean, inverse, partial, rows, width, centred});                    \
    }

#define ROWS(name, T, C) KERNELS(name##_##C, T, (forward<T, C>), (backward<T, C>))

#define TYPE(name, T)                                                                                                \
    ROWS(name, T, 1)                                                                                                 \
    ROWS(name, T, 2)                                                                                                 \
    ROWS(name, T, 3)                                                                                                 \
    ROWS(name, T, 4)                                                                                                 \
    ROWS(name, T, 6)                                                                                                 \
    ROWS(name, T, 8)                                                                                                 \
    KERNELS(name##_wide, T, forward_wide<T>, backward_wide<T>)

TYPE(f32, float)
TYPE(bf16, bf16)
