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

// A vector of a row as numbers; at the END of a row what lies beyond the classes is -∞. Comparing every column with the
// number of classes would be a third of all instructions.
template <bool END, typename T>
__device__ void numbers(const Vector<T>& v, u64 column, const Rows& r, float (&x)[Vector<T>::N]) {
#pragma unroll
    for (int i = 0; i < Vector<T>::N; i++) x[i] = !END || column + i < r.classes ? v[i] : -infinity();
}

// The target's logit and what it should become.
struct Target {
    u32 id;
    float logit;
};

// The gradient of a vector of a row, as if none of it were the target's: (softmax(x) - ε/classes)·scale.
template <bool END, typename T>
__device__ Vector<T> gradient_of(const Vector<T>& v, u64 column, const Rows& r, float lse, float scale) {
    using M = typename MathOf<T>::M;
    constexpr int N = Vector<T>::N;
    float x[N], by = lse * LOG2_E, spread = r.smoothing / r.classes * scale;
    numbers<END>(v, column, r, x);
#pragma unroll
    for (int j = 0; j < N; j++) {
        x[j] = exp2_of<M>(x[j] * LOG2_E - by) * scale;
        // Beyond the classes there is no gradient, and nothing is spread.
        if (!END || column + j < r.classes) x[j] -= spread;
    }
    return to_vector<T>(x);
}

// For each row its loss, lse - (1 - ε)·x[target] - ε·mean(x), and its log-sum-exp. With `gradient` (which may be the
// logits themselves), also its gradient times `scale`: (softmax(x) - (1 - ε)·[target] - ε/classes)·scale.
//
// A block takes a row. `read(i)` gives vector i of it.
template <typename T, typename Read>
__device__ void one_row(u64 row, T* gradient, float* losses, float* lses, const Rows& r, float scale, bool whole,
                        Target target, Read read) {
    using M = typename MathOf<T>::M;
    constexpr int N = Vector<T>::N;
    // So many vectors, and so many of them whose values are all classes.
    const u32 vectors = (r.stride + N - 1) / N, inner = r.classes / N;
    auto place = [&](u32 i, const Vector<T>& v) { store_some(gradient, u64(i) * N, r.stride, whole, v); };
    if (target.id == r.ignored) {
        if (threadIdx.x == 0) losses[row] = lses[row] = 0.0f;
        if (gradient)
            for (u32 i = threadIdx.x; i < vectors; i += blockDim.x) place(i, Vector<T>{});
        return;
    }
    Running<M> running;
    float total = 0.0f;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < inner; i += blockDim.x) {
        float x[N];
        numbers<false>(read(i), u64(i) * N, r, x);
        running.add(x);
        if (r.smoothing > 0.0f)
            for (int j = 0; j < N; j++) total += x[j];
    }
    for (u32 i = inner + threadIdx.x; i < vectors; i += blockDim.x) {
        float x[N];
        numbers<true>(read(i), u64(i) * N, r, x);
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
    for (u32 i = threadIdx.x; i < inner; i += blockDim.x) {
        Vector<T> v = gradient_of<false>(read(i), u64(i) * N, r, lse, scale);
        // Within the classes, so that only the alignment matters.
        whole ? store_whole(gradient + u64(i) * N, v) : place(i, v);
    }
    for (u32 i = inner + threadIdx.x; i < vectors; i += blockDim.x)
        place(i, gradient_of<true>(read(i), u64(i) * N, r, lse, scale));
    // The thread that stored the target's vector corrects it.
    u32 holder = target.id / N < inner ? target.id / N : target.id / N - inner;
    if (threadIdx.x == holder % blockDim.x) {
        float p = exp2_of<M>(target.logit * LOG2_E - lse * LOG2_E);
        gradient[target.id] = from_float<T>((p - r.smoothing / r.classes - (1.0f - r.smoothing)) * scale);
    }
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
    one_row(row, gradient, losses, lses, r, scale, whole, target, read);
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
        one_row(row, gradient + row * r.stride, losses, lses, r, scale, true, target, read);
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
