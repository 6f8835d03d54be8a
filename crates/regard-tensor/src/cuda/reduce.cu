// Sums and maxima along an axis. An array is (outer, length, inner), and the axis is the middle one.

#include "block.cuh"

struct Same {
    static __device__ float of(float x) { return x; }
};

struct Square {
    static __device__ float of(float x) { return x * x; }
};

// Sums of rows in pieces: block (piece, row) adds up f(x) of its piece. A row of one piece is done; the sums of several
// are the rows of a second launch.
template <typename F, typename T> __device__ void row_sums(const T* x, float* out, u64 length, u64 piece) {
    constexpr int N = Vector<T>::N;
    u64 row = blockIdx.y, start = blockIdx.x * piece, end = min(start + piece, length);
    x += row * length;
    bool whole = aligned(x);
    float total[N] = {};
#pragma unroll 4
    for (u64 i = start + threadIdx.x * N; i < end; i += blockDim.x * N) {
        Vector<T> v = load_some(x, i, end, whole);
        for (int j = 0; j < N; j++) total[j] += F::of(v[j]);
    }
    float sum = 0.0f;
    for (int j = 0; j < N; j++) sum += total[j];
    double all = block_reduce<Sum>(double(sum), 0.0);
    if (threadIdx.x == 0) out[row * gridDim.x + blockIdx.x] = float(all);
}

// A thread takes one (outer, inner) and goes along the axis.
template <typename T> __device__ void axis_sums(const T* x, float* out, u64 outer, u64 length, u64 inner) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= outer * inner) return;
    x += i / inner * length * inner + i % inner;
    float total = 0.0f;
    for (u64 j = 0; j < length; j++) total += to_float(x[j * inner]);
    out[i] = total;
}

// The largest value and its place: the first of equals, and NaN before everything.
struct Best {
    float value;
    u32 place;

    // Whether another comes before this one.
    __device__ bool loses_to(float other, u32 at) const {
        if (other != other) return value == value || at < place;
        if (value != value) return false;
        return other > value || (other == value && at < place);
    }
    __device__ void meet(float other, u32 at) {
        if (loses_to(other, at)) {
            value = other;
            place = at;
        }
    }
};

template <typename T> __device__ void axis_max(const T* x, T* values, u32* places, u64 outer, u64 length, u64 inner) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= outer * inner) return;
    x += i / inner * length * inner + i % inner;
    Best best = {to_float(x[0]), 0};
    for (u64 j = 1; j < length; j++) best.meet(to_float(x[j * inner]), u32(j));
    values[i] = from_float<T>(best.value);
    places[i] = best.place;
}

// Rows: a warp takes one.
template <typename T> __device__ void row_max(const T* x, T* values, u32* places, u64 rows, u64 length) {
    constexpr int N = Vector<T>::N;
    u64 row = u64(blockIdx.x) * (blockDim.x / WARP) + warp();
    if (row >= rows) return;
    x += row * length;
    bool whole = aligned(x);
    Best best = {-infinity(), 0xffffffffu};
    for (u64 i = lane() * N; i < length; i += WARP * N) {
        Vector<T> v = load_some(x, i, length, whole);
        for (int j = 0; j < N; j++)
            if (i + j < length) best.meet(v[j], u32(i + j));
    }
    for (int other = WARP / 2; other > 0; other /= 2) {
        float value = __shfl_xor_sync(~0u, best.value, other);
        u32 place = __shfl_xor_sync(~0u, best.place, other);
        if (place != 0xffffffffu) best.meet(value, place);
    }
    if (lane() == 0) {
        values[row] = from_float<T>(best.value);
        places[row] = best.place;
    }
}

// The gradient of a maximum: each value at its place along the axis, zeros elsewhere.
template <typename T>
__device__ void scatter(const T* values, const u32* places, T* out, u64 outer, u64 length, u64 inner) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= outer * length * inner) return;
    u64 from = i / (length * inner) * inner + i % inner;
    out[i] = places[from] == i / inner % length ? values[from] : from_float<T>(0.0f);
}

#define KERNELS(name, T)                                                                                             \
    extern "C" __global__ void sums_##name(const T* x, float* out, u64 length, u64 piece) {                          \
        row_sums<Same, T>(x, out, length, piece);                                                                    \
    }                                                                                                                \
    extern "C" __global__ void squares_##name(const T* x, float* out, u64 length, u64 piece) {                       \
        row_sums<Square, T>(x, out, length, piece);                                                                  \
    }                                                                                                                \
    extern "C" __global__ void axis_sums_##name(const T* x, float* out, u64 outer, u64 length, u64 inner) {          \
        axis_sums<T>(x, out, outer, length, inner);                                                                  \
    }                                                                                                                \
    extern "C" __global__ void axis_max_##name(const T* x, T* values, u32* places, u64 outer, u64 length,            \
                                               u64 inner) {                                                          \
        axis_max<T>(x, values, places, outer, length, inner);                                                        \
    }                                                                                                                \
    extern "C" __global__ void row_max_##name(const T* x, T* values, u32* places, u64 rows, u64 length) {            \
        row_max<T>(x, values, places, rows, length);                                                                 \
    }                                                                                                                \
    extern "C" __global__ void scatter_##name(const T* values, const u32* places, T* out, u64 outer, u64 length,     \
                                              u64 inner) {                                                           \
        scatter<T>(values, places, out, outer, length, inner);                                                       \
    }

KERNELS(f32, float)
KERNELS(bf16, bf16)
