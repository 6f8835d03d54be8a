// Softmax and log-softmax over rows, with or without a mask. A block takes a row.

#include "axes.cuh"
#include "block.cuh"
#include "functions.cuh"

// Which places of a row count: those whose byte is not 0. The mask is broadcast over the rows; along a row it moves by
// `step`, 0 or 1.
struct Mask {
    const u8* values; // null: all count
    Axes rows;
    u64 step;
};

// A row with nothing allowed gives zeros (-∞ with `log`), not NaN.
template <typename T> __device__ void forward(const T* x, T* y, u64 width, const Mask& mask, bool log) {
    using M = typename MathOf<T>::M;
    u64 row = blockIdx.x;
    x += row * width;
    y += row * width;
    const u8* allowed = mask.values ? mask.values + offsets(mask.rows, u32(row)).first : nullptr;
    auto at = [&](u64 i) { return !allowed || allowed[i * mask.step] ? to_float(x[i]) : -infinity(); };
    float max = -infinity(), sum = 0.0f;
    for (u64 i = threadIdx.x; i < width; i += blockDim.x) max = fmaxf(max, at(i));
    max = block_reduce<Max>(max, -infinity());
    // A row of NaN alone has no maximum either; it must not be taken for a row with nothing allowed.
    float shift = max == -infinity() ? 0.0f : max;
    for (u64 i = threadIdx.x; i < width; i += blockDim.x) sum += M::exp(at(i) - shift);
    sum = block_sum(sum);
    float scale = sum == 0.0f ? 0.0f : 1.0f / sum, lse = sum == 0.0f ? 0.0f : shift + logf(sum);
    for (u64 i = threadIdx.x; i < width; i += blockDim.x)
        y[i] = from_float<T>(log ? at(i) - lse : M::exp(at(i) - shift) * scale);
}

// From weights w and gradient g: w·(g - Σ g·w). From log-weights y: g - e^y·Σ g, where excluded places (-∞) neither send
// nor receive anything.
template <typename T> __device__ void backward(const T* y, const T* g, T* out, u64 width, bool log) {
    using M = typename MathOf<T>::M;
    u64 start = blockIdx.x * width;
    auto term = [&](u64 i) {
        float w = to_float(y[start + i]), h = to_float(g[start + i]);
        return log ? (w == -infinity() ? 0.0f : h) : w * h;
    };
    float total = 0.0f;
    for (u64 i = threadIdx.x; i < width; i += blockDim.x) total += term(i);
    total = block_sum(total);
    for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
        float w = to_float(y[start + i]);
        out[start + i] = from_float<T>(term(i) - (log ? M::exp(w) : w) * total);
    }
}

#define KERNELS(name, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(512)                                                                \
        forward_##name(const T* x, T* y, u64 width, const u8* mask, Axes rows, u64 step, bool log) {                 \
        forward<T>(x, y, width, {mask, rows, step}, log);                                                            \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(512)                                                                \
        backward_##name(const T* y, const T* g, T* out, u64 width, bool log) {                                       \
        backward<T>(y, g, out, width, log);                                                                          \
    }

KERNELS(f32, float)
KERNELS(bf16, bf16)
