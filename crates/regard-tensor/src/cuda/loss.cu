// Losses over rows of logits, without keeping probabilities.
//
// A row of logits may be longer than its classes (tables of words are padded so that products run fast): the rest does not
// count and gets no gradient.

#include "block.cuh"
#include "functions.cuh"

struct Rows {
    const u32* targets;
    u64 classes;
    u64 stride;      // from one row to the next
    long long ignored; // rows with this target do not count; -1 for none
    float smoothing; // this share of the target's probability is spread over all classes
};

// The maximum of some logits and the sum of e^(x - maximum), brought up to date as values come.
template <typename M> struct Running {
    float max = -infinity();
    float sum = 0.0f;

    // e^(a - b), where nothing (-∞) stays nothing.
    static __device__ float ratio(float a, float b) { return a == -infinity() ? 0.0f : M::exp(a - b); }

    template <int N> __device__ void add(const float (&x)[N]) {
        float most = max;
        for (int i = 0; i < N; i++) most = fmaxf(most, x[i]);
        if (most > max) {
            sum *= ratio(max, most);
            max = most;
        }
        for (int i = 0; i < N; i++) sum += ratio(x[i], max);
    }

    // ln Σ e^x over the threads of the block.
    __device__ float log_sum_exp() const {
        float all = block_reduce<Max>(max, -infinity());
        return all + logf(block_sum(sum * ratio(max, all)));
    }
};

// A vector of a row; what lies beyond the classes is -∞.
template <typename T>
__device__ void read(const T* row, u64 column, const Rows& r, bool whole, float (&x)[Vector<T>::N], Vector<T>& v) {
    v = load_some(row, column, r.stride, whole);
    for (int i = 0; i < Vector<T>::N; i++) x[i] = column + i < r.classes ? v[i] : -infinity();
}

// For each row its loss, lse - (1 - ε)·x[target] - ε·mean(x), and its log-sum-exp. With `gradient` (which may be the
// logits themselves), also (softmax(x) - (1 - ε)·[target] - ε/classes)·scale.
//
// A block takes a row. With `staged`, each thread keeps its part of the row in shared memory for the gradient, so that
// the logits are read once.
template <typename T>
__device__ void cross_entropy(const T* logits, T* gradient, float* losses, float* lses, const Rows& r, float scale,
                              bool staged) {
    using M = typename MathOf<T>::M;
    constexpr int N = Vector<T>::N;
    extern __shared__ uint4 parts[];
    Vector<T>* kept = reinterpret_cast<Vector<T>*>(parts);
    u64 row = blockIdx.x;
    logits += row * r.stride;
    if (gradient) gradient += row * r.stride;
    u32 target = r.targets[row];
    bool whole = aligned(logits, gradient ? gradient : logits);
    u64 vectors = (r.stride + N - 1) / N;
    if (target == r.ignored) {
        if (threadIdx.x == 0) losses[row] = lses[row] = 0.0f;
        if (gradient)
            for (u64 i = threadIdx.x; i < vectors; i += blockDim.x)
                store_some(gradient, i * N, r.stride, whole, Vector<T>{});
        return;
    }
    float at_target = to_float(logits[target]);
    Running<M> running;
    float total = 0.0f;
#pragma unroll 4
    for (u64 i = threadIdx.x; i < vectors; i += blockDim.x) {
        float x[N];
        Vector<T> v;
        read(logits, i * N, r, whole, x, v);
        if (staged) kept[i] = v;
        running.add(x);
        if (r.smoothing > 0.0f)
            for (int j = 0; j < N; j++) total += i * N + j < r.classes ? x[j] : 0.0f;
    }
    float lse = running.log_sum_exp();
    float mean = r.smoothing > 0.0f ? block_sum(total) / r.classes : 0.0f;
    float share = 1.0f - r.smoothing;
    if (threadIdx.x == 0) {
        lses[row] = lse;
        losses[row] = lse - share * at_target - r.smoothing * mean;
    }
    if (!gradient) return;
    float spread = r.smoothing / r.classes;
#pragma unroll 4
    for (u64 i = threadIdx.x; i < vectors; i += blockDim.x) {
        Vector<T> v = staged ? kept[i] : load_some(logits, i * N, r.stride, whole);
        for (int j = 0; j < N; j++)
            v.set(j, i * N + j < r.classes ? (M::exp(v[j] - lse) - spread) * scale : 0.0f);
        store_some(gradient, i * N, r.stride, whole, v);
        // Every thread read the target's logit before the barriers above.
        if (target / N == i) gradient[target] = from_float<T>((M::exp(at_target - lse) - spread - share) * scale);
    }
}

// The gradient from the logits and their log-sum-exp, times `upstream[row]`.
template <typename T>
__device__ void cross_entropy_gradient(const T* logits, const float* lses, const float* upstream, T* gradient,
                                       const Rows& r) {
    using M = typename MathOf<T>::M;
    constexpr int N = Vector<T>::N;
    u64 row = blockIdx.x;
    logits += row * r.stride;
    gradient += row * r.stride;
    u32 target = r.targets[row];
    bool whole = aligned(logits, gradient);
    float lse = lses[row], scale = target == r.ignored ? 0.0f : upstream[row];
    float spread = r.smoothing / r.classes;
    for (u64 i = threadIdx.x * N; i < r.stride; i += blockDim.x * N) {
        Vector<T> v = load_some(logits, i, r.stride, whole);
        for (int j = 0; j < N; j++) {
            float p = M::exp(v[j] - lse) - spread - (i + j == target ? 1.0f - r.smoothing : 0.0f);
            v.set(j, i + j < r.classes && target != r.ignored ? p * scale : 0.0f);
        }
        store_some(gradient, i, r.stride, whole, v);
    }
}

// max(x, 0) - x·t + ln(1 + e^-|x|) for each logit x and target t in [0, 1]; its gradient is (σ(x) - t)·g.
__device__ float binary(float x, float t) { return fmaxf(x, 0.0f) - x * t + log1pf(expf(-fabsf(x))); }
__device__ float binary_gradient(float x, float t, float g) { return (sigmoid_of<Exact>(x) - t) * g; }

#define KERNELS(name, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
        cross_entropy_##name(const T* logits, T* gradient, float* losses, float* lses, const u32* targets,           \
                             u64 classes, u64 stride, long long ignored, float smoothing, float scale,               \
                             bool staged) {                                                                          \
        cross_entropy<T>(logits, gradient, losses, lses, {targets, classes, stride, ignored, smoothing}, scale,      \
                         staged);                                                                                    \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
        cross_entropy_gradient_##name(const T* logits, const float* lses, const float* upstream, T* gradient,        \
                                      const u32* targets, u64 classes, u64 stride, long long ignored,                \
                                      float smoothing) {                                                             \
        cross_entropy_gradient<T>(logits, lses, upstream, gradient, {targets, classes, stride, ignored, smoothing}); \
    }                                                                                                                \
    extern "C" __global__ void binary_##name(const T* x, const float* t, float* losses, u64 count) {                 \
        u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;                                                          \
        if (i < count) losses[i] = binary(to_float(x[i]), t[i]);                                                     \
    }                                                                                                                \
    extern "C" __global__ void binary_gradient_##name(const T* x, const float* t, const float* g, T* out,            \
                                                      u64 count) {                                                   \
        u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;                                                          \
        if (i < count) out[i] = from_float<T>(binary_gradient(to_float(x[i]), t[i], g[i]));                          \
    }

KERNELS(f32, float)
KERNELS(bf16, bf16)
