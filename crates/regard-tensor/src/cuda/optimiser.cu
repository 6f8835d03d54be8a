// Updates of all parameters in one launch, and the norm of all gradients in two.
//
// A table says where each parameter lies and which blocks take it: CHUNK values a block, parameters one after another.

#include "block.cuh"

constexpr int THREADS = 256;
constexpr int STEPS = 4;                  // vectors of four f32 values that a thread takes
constexpr int CHUNK = THREADS * STEPS * 4;

// The same layout as `Entry` in optimiser.rs.
struct Entry {
    float* parameter;
    const float* gradient;
    float* first;      // running mean of gradients
    float* second;     // running mean of their squares; null for momentum
    bf16* shadow;      // the parameter rounded, for products; may be null
    const float* pace; // multiplies the rate; may be null
    u64 count;
    u64 first_block;
    float coupled;   // decay added to the gradient
    float decoupled; // decay of the parameter itself, times the rate
};

// The numbers of one update, in device memory so that a recorded step can be replayed with new ones. The same layout as
// `Settings` in optimiser.rs.
struct Settings {
    float rate;
    float beta1; // for momentum: how much of the last step is kept
    float beta2;
    float epsilon;
    float correction1; // 1 - beta1^t
    float root_correction2; // the root of 1 - beta2^t
};

// The entry whose blocks include this one.
__device__ const Entry& entry_of_block(const Entry* table, u32 entries) {
    u32 low = 0, high = entries;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (table[middle].first_block <= blockIdx.x) low = middle;
        else high = middle;
    }
    return table[low];
}

// m = beta1·m + g;  p -= rate·m
struct Momentum {
    static constexpr bool SECOND = false;
    static __device__ float change(const Settings& s, float rate, float g, float& m, float&) {
        m = s.beta1 * m + g;
        return -rate * m;
    }
};

// m, v: running means of g and g²;  p -= rate/(1 - beta1^t) · m / (√v/√(1 - beta2^t) + epsilon)
struct Adam {
    static constexpr bool SECOND = true;
    static __device__ float change(const Settings& s, float rate, float g, float& m, float& v) {
        m = s.beta1 * m + (1.0f - s.beta1) * g;
        v = s.beta2 * v + (1.0f - s.beta2) * g * g;
        return -(rate / s.correction1) * m / (sqrtf(v) / s.root_correction2 + s.epsilon);
    }
};

template <typename Rule> struct Updater {
    const Entry e;
    const Settings s;
    float rate, scale;

    __device__ float step(float p, float g, float& m, float& v) const {
        g = g * scale + e.coupled * p;
        return p * (1.0f - rate * e.decoupled) + Rule::change(s, rate, g, m, v);
    }

    __device__ void one(u64 i) const {
        float p = e.parameter[i], m = e.first[i], v = Rule::SECOND ? e.second[i] : 0.0f;
        p = step(p, e.gradient[i], m, v);
        e.parameter[i] = p;
        e.first[i] = m;
        if (Rule::SECOND) e.second[i] = v;
        if (e.shadow) e.shadow[i] = from_float<bf16>(p);
    }

    __device__ void four(u64 i) const {
        Floats<4> p = load_floats<4>(e.parameter + i), g = load_floats<4>(e.gradient + i);
        Floats<4> m = load_floats<4>(e.first + i), v = {};
        if (Rule::SECOND) v = load_floats<4>(e.second + i);
        for (int j = 0; j < 4; j++) p.at[j] = step(p.at[j], g.at[j], m.at[j], v.at[j]);
        store_floats<4>(e.parameter + i, p);
        store_floats<4>(e.first + i, m);
        if (Rule::SECOND) store_floats<4>(e.second + i, v);
        if (e.shadow)
            for (int j = 0; j < 4; j++) e.shadow[i + j] = from_float<bf16>(p.at[j]);
    }
};

template <typename Rule>
__device__ void update(const Entry* table, u32 entries, const Settings* settings, const float* scale) {
    const Entry& e = entry_of_block(table, entries);
    float pace = e.pace ? *e.pace : 1.0f;
    Updater<Rule> updater{e, *settings, settings->rate * pace, scale ? *scale : 1.0f};
    u64 start = (blockIdx.x - e.first_block) * CHUNK;
    bool whole = aligned(e.parameter, e.gradient, e.first, e.second);
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        u64 i = start + (s * THREADS + threadIdx.x) * 4;
        if (whole && i + 4 <= e.count) {
            updater.four(i);
        } else {
            for (u64 j = i; j < i + 4 && j < e.count; j++) updater.one(j);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    update_momentum(const Entry* table, u32 entries, const Settings* settings, const float* scale) {
    update<Momentum>(table, entries, settings, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    update_adam(const Entry* table, u32 entries, const Settings* settings, const float* scale) {
    update<Adam>(table, entries, settings, scale);
}

// The sum of squares of each chunk of the gradients.
extern "C" __global__ void __launch_bounds__(THREADS) squares(const Entry* table, u32 entries, float* partial) {
    const Entry& e = entry_of_block(table, entries);
    u64 start = (blockIdx.x - e.first_block) * CHUNK, end = min(start + CHUNK, e.count);
    bool whole = aligned(e.gradient);
    float total = 0.0f;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        Vector<float> g = load_some(e.gradient, start + (s * THREADS + threadIdx.x) * 4, end, whole);
        for (int j = 0; j < 4; j++) total += g[j] * g[j];
    }
    total = block_sum(total);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// out = the root of the sum of `partial`, and what to multiply gradients with so that their norm is at most `limit`.
extern "C" __global__ void __launch_bounds__(1024)
    gradient_norm(const float* partial, u64 count, float limit, float* out) {
    double total = 0.0;
    for (u64 i = threadIdx.x; i < count; i += blockDim.x) total += partial[i];
    float norm = float(sqrt(block_reduce<Sum>(total, 0.0)));
    if (threadIdx.x == 0) {
        out[0] = norm;
        out[1] = norm > limit ? limit / norm : 1.0f;
    }
}

// What to multiply gradients of a norm with so that it is at most `limit`. One thread.
extern "C" __global__ void clip_scale(const float* norm, float limit, float* out) {
    *out = *norm > limit ? limit / *norm : 1.0f;
}

// The root mean square of a parameter, from the sum of its squares, but at least `smallest`. One thread.
extern "C" __global__ void pace(const float* sum, u64 count, float smallest, float* out) {
    *out = fmaxf(float(sqrt(double(*sum) / double(count))), smallest);
}
