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

constexpr float LOG2_E = 1.44269504088896341f;

// 2^x; `Exact` for f32, one instruction for bf16, whose rounding hides the difference.
template <typename M> __device__ inline float exp2_of(float x);
template <> __device__ inline float exp2_of<Exact>(float x) { return exp2f(x); }
template <> __device__ inline float exp2_of<Fast>(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The maximum of some logits and the sum of e^(x - maximum), brought up to date as values come. A value costs a comparison,
// a multiply-add, an exponential and an addition: with 50,000 classes, arithmetic takes as long as memory.
template <typename M> struct Running {
    float max = -infinity();
    float sum = 0.0f;

    // The maximum in units of log₂; 0 where there is none yet, so that differences stay -∞ instead of NaN.
    static __device__ float shift(float max) { return max == -infinity() ? 0.0f : max * LOG2_E; }

    template <int N> __device__ void add(const float (&x)[N]) {
        float most = max;
#pragma unroll
        for (int i = 0; i < N; i++) most = fmaxf(most, x[i]);
        if (most > max) {
            sum *= exp2_of<M>((max - most) * LOG2_E);
            max = most;
        }
        float by = shift(max);
#pragma unroll
        for (int i = 0; i < N; i++) sum += exp2_of<M>(x[i] * LOG2_E - by);
    }

    // ln Σ e^x over the threads of the block.
    __device__ float log_sum_exp() const {
        float all = block_reduce<Max>(max, -infinity());
        float share = max == -infinity() ? sum : sum * exp2_of<M>((max - all) * LOG2_E);
        return (all == -infinity() ? 0.0f : all) + logf(block_sum(share));
    }
};

// A vector of a row as numbers; what lies beyond the classes is -∞.
template <typename T>
__device__ void numbers(const Vector<T>& v, u64 column, const Rows& r, float (&x)[Vector<T>::N]) {
    bool inside = column + Vector<T>::N <= r.classes;
#pragma unroll
    for (int i = 0; i < Vector<T>::N; i++) x[i] = inside || column + i < r.classes ? v[i] : -infinity();
}

// The target's logit and what it should become.
struct Target {
    u32 id;
    float logit;
};

// The gradient of a vector of a row: (softmax(x) - (1 - ε)·[target] - ε/classes)·scale.
template <typename T>
__device__ Vector<T> gradient_of(const Vector<T>& v, u64 column, const Rows& r, float lse, float scale, Target target) {
    using M = typename MathOf<T>::M;
    constexpr int N = Vector<T>::N;
    float x[N], spread = r.smoothing / r.classes;
    numbers(v, column, r, x);
#pragma unroll
    for (int j = 0; j < N; j++) x[j] = exp2_of<M>(x[j] * LOG2_E - lse * LOG2_E) * scale;
    // Beyond the classes there is no gradient, and nothing is spread.
    if (r.smoothing > 0.0f)
        for (int j = 0; j < N; j++) x[j] -= column + j < r.classes ? spread * scale : 0.0f;
    if (target.id - column < N) {
        float p = (exp2_of<M>(target.logit * LOG2_E - lse * LOG2_E) - spread - (1.0f - r.smoothing)) * scale;
        for (int j = 0; j < N; j++) x[j] = target.id == column + j ? p : x[j];
    }
    return to_vector<T>(x);
}

// For each row its loss, lse - (1 - ε)·x[target] - ε·mean(x), and its log-sum-exp. With `gradient` (which may be the
// logits themselves), also its gradient times `scale`.
//
// A block takes a row. `read(i)` and `read_again(i)` give vector i of it.
template <typename T, typename Read, typename Again>
__device__ void one_row(u64 row, T* gradient, float* losses, float* lses, const Rows& r, float scale, bool whole,
                        Target target, Read read, Again read_again) {
    constexpr int N = Vector<T>::N;
    u32 vectors = (r.stride + N - 1) / N;
    if (target.id == r.ignored) {
        if (threadIdx.x == 0) losses[row] = lses[row] = 0.0f;
        if (gradient)
            for (u32 i = threadIdx.x; i < vectors; i += blockDim.x)
                store_some(gradient, u64(i) * N, r.stride, whole, Vector<T>{});
        return;
    }
    Running<typename MathOf<T>::M> running;
    float total = 0.0f;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < vectors; i += blockDim.x) {
        Vector<T> v = read(i);
        float x[N];
        numbers(v, u64(i) * N, r, x);
        running.add(x);
        if (r.smoothing > 0.0f)
            for (int j = 0; j < N; j++) total += u64(i) * N + j < r.classes ? x[j] : 0.0f;
    }
    float lse = running.log_sum_exp();
    float mean = r.smoothing > 0.0f ? block_sum(total) / r.classes : 0.0f;
    if (threadIdx.x == 0) {
        lses[row] = lse;
        losses[row] = lse - (1.0f - r.smoothing) * target.logit - r.smoothing * mean;
    }
    if (!gradient) return;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < vectors; i += blockDim.x)
        store_some(gradient, u64(i) * N, r.stride, whole,
                   gradient_of(read_again(i), u64(i) * N, r, lse, scale, target));
}

template <typename T>
__device__ void cross_entropy(const T* logits, T* gradient, float* losses, float* lses, const Rows& r, float scale) {
    constexpr int N = Vector<T>::N;
    u64 row = blockIdx.x;
    logits += row * r.stride;
    if (gradient) gradient += row * r.stride;
    bool whole = aligned(logits, gradient ? gradient : logits);
    Target target = {r.targets[row], 0.0f};
    if (target.id != r.ignored) target.logit = to_float(logits[target.id]);
    auto read = [&](u32 i) { return load_some(logits, u64(i) * N, r.stride, whole); };
    // The gradient may overwrite the logits: all threads have read the target's by then.
    one_row(row, gradient, losses, lses, r, scale, whole, target, read, read);
}

// The same for many rows, with room for two of them in shared memory: while a block works on one row, the next is on
// its way. A block takes every gridDim.x-th row. Rows are whole vectors, and aligned.
template <typename T>
__device__ void cross_entropy_staged(const T* logits, T* gradient, float* losses, float* lses, const Rows& r,
                                     u64 rows, float scale) {
    constexpr int N = Vector<T>::N;
    extern __shared__ uint4 staged[];
    u32 vectors = r.stride / N;
    auto room = [&](u64 turn) { return reinterpret_cast<Vector<T>*>(staged) + (turn % 2) * vectors; };
    auto fetch = [&](u64 row, u64 turn) {
        if (row < rows)
            for (u32 i = threadIdx.x; i < vectors; i += blockDim.x)
                copy_async(room(turn) + i, logits + row * r.stride + u64(i) * N);
        copy_commit();
    };
    fetch(blockIdx.x, 0);
    u64 turn = 0;
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x, turn++) {
        fetch(row + gridDim.x, turn + 1);
        Target target = {r.targets[row], 0.0f};
        copy_wait<1>();
        __syncthreads();
        const Vector<T>* kept = room(turn);
        if (target.id != r.ignored) target.logit = to_float(kept[target.id / N].at[target.id % N]);
        auto read = [&](u32 i) { return kept[i]; };
        one_row(row, gradient + row * r.stride, losses, lses, r, scale, true, target, read, read);
        __syncthreads(); // before the row's room is filled again
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
    extern "C" __global__ void __launch_bounds__(512)                                                                \
        cross_entropy_##name(const T* logits, T* gradient, float* losses, float* lses, const u32* targets,           \
                             u64 classes, u64 stride, long long ignored, float smoothing, float scale) {             \
        cross_entropy<T>(logits, gradient, losses, lses, {targets, classes, stride, ignored, smoothing}, scale);     \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(1024)                                                               \
        cross_entropy_staged_##name(const T* logits, T* gradient, float* losses, float* lses, const u32* targets,    \
                                    u64 rows, u64 classes, u64 stride, long long ignored, float smoothing,           \
                                    float scale) {                                                                   \
        cross_entropy_staged<T>(logits, gradient, losses, lses, {targets, classes, stride, ignored, smoothing},      \
                                rows, scale);                                                                        \
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
