// Functions of one value and their derivatives.
//
// Each has `value(x)` and `gradient(saved, g)`, the derivative times g, where `saved` is the input or the output of the
// function, whichever gives the derivative with less work. `M` is how exponentials are computed: `Exact` for f32, `Fast`
// for bf16, whose rounding hides the difference and whose kernels would otherwise wait for arithmetic.

#pragma once

#include "values.cuh"

struct Exact {
    static __device__ float exp(float x) { return expf(x); }
    static __device__ float divide(float x, float y) { return x / y; }
    static __device__ float normal_cdf(float x) { return 0.5f * erfcf(-0.70710678f * x); }
};

struct Fast {
    static __device__ float exp(float x) { return __expf(x); }
    static __device__ float divide(float x, float y) { return __fdividef(x, y); }
    // Abramowitz & Stegun 7.1.26, within 1.5e-7.
    static __device__ float normal_cdf(float x) {
        float t = divide(1.0f, 1.0f + 0.2316419f * fabsf(x));
        float p = -1.453152027f + t * 1.061405429f;
        p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * p)));
        float tail = 0.5f * p * exp(-0.5f * x * x);
        return x < 0.0f ? tail : 1.0f - tail;
    }
};

template <typename T> struct MathOf {
    using M = Fast;
};
template <> struct MathOf<float> {
    using M = Exact;
};

template <typename M> __device__ float sigmoid_of(float x) { return M::divide(1.0f, 1.0f + M::exp(-x)); }

template <typename M> struct Exp {
    static __device__ float value(float x) { return M::exp(x); }
    static __device__ float gradient(float y, float g) { return y * g; }
};

template <typename M> struct Ln {
    static __device__ float value(float x) { return logf(x); }
    static __device__ float gradient(float x, float g) { return g / x; }
};

template <typename M> struct Sqrt {
    static __device__ float value(float x) { return sqrtf(x); }
    static __device__ float gradient(float y, float g) { return 0.5f * g / y; }
};

template <typename M> struct Tanh {
    static __device__ float value(float x) { return tanhf(x); }
    static __device__ float gradient(float y, float g) { return g - g * y * y; }
};

template <typename M> struct Sigmoid {
    static __device__ float value(float x) { return sigmoid_of<M>(x); }
    static __device__ float gradient(float y, float g) { return g * y * (1.0f - y); }
};

// Not a maximum, which would lose NaN.
template <typename M> struct Relu {
    static __device__ float value(float x) { return x < 0.0f ? 0.0f : x; }
    static __device__ float gradient(float y, float g) { return y > 0.0f ? g : 0.0f; }
};

// x·Φ(x), with the distribution function Φ and the density φ of the standard normal distribution.
template <typename M> struct Gelu {
    static __device__ float value(float x) { return x * M::normal_cdf(x); }
    static __device__ float gradient(float x, float g) {
        return g * (M::normal_cdf(x) + x * 0.39894228f * M::exp(-0.5f * x * x));
    }
};

// ½x(1 + tanh u) = x·σ(2u) with 2u = 2√(2/π)·(x + 0.044715x³); no difference of nearly equal numbers.
template <typename M> struct GeluTanh {
    static constexpr float LINEAR = 1.5957691216f, CUBIC = LINEAR * 0.044715f;
    static __device__ float sigma(float x) { return sigmoid_of<M>(x * (LINEAR + CUBIC * x * x)); }
    static __device__ float value(float x) { return x * sigma(x); }
    static __device__ float gradient(float x, float g) {
        float s = sigma(x);
        return g * (s + x * s * (1.0f - s) * (LINEAR + 3.0f * CUBIC * x * x));
    }
};

template <typename M> struct Silu {
    static __device__ float value(float x) { return x * sigmoid_of<M>(x); }
    static __device__ float gradient(float x, float g) {
        float s = sigmoid_of<M>(x);
        return g * s * (1.0f + x * (1.0f - s));
    }
};

// x + 1 above 0, e^x below: the output is above 1 exactly where the derivative is 1.
template <typename M> struct EluPlusOne {
    static __device__ float value(float x) { return x > 0.0f ? x + 1.0f : M::exp(x); }
    static __device__ float gradient(float y, float g) { return y > 1.0f ? g : g * y; }
};

// Calls a macro with each function's name for kernels and its type.
#define FOR_FUNCTIONS(DO)                                                                                            \
    DO(exp, Exp)                                                                                                     \
    DO(ln, Ln)                                                                                                       \
    DO(sqrt, Sqrt)                                                                                                   \
    DO(tanh, Tanh)                                                                                                   \
    DO(sigmoid, Sigmoid)                                                                                             \
    DO(relu, Relu)                                                                                                   \
    DO(gelu, Gelu)                                                                                                   \
    DO(gelu_tanh, GeluTanh)                                                                                          \
    DO(silu, Silu)                                                                                                   \
    DO(elu_plus_one, EluPlusOne)
