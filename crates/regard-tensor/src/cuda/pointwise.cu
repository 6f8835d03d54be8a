// y = f(x) and its gradient, for each value.

#include "functions.cuh"

// Each thread takes STEPS vectors, blockDim.x apart, and reads all before it computes.
constexpr int STEPS = 2;

template <template <typename> class F, typename T> __device__ void forward(const T* x, T* y, u64 count) {
    using Function = F<typename MathOf<T>::M>;
    constexpr int N = Vector<T>::N;
    bool whole = aligned(x, y);
    u64 first = (u64(blockIdx.x) * blockDim.x * STEPS + threadIdx.x) * N;
    Vector<T> v[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++) v[s] = load_some(x, first + u64(s) * blockDim.x * N, count, whole);
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < N; i++) v[s].set(i, Function::value(v[s][i]));
        store_some(y, first + u64(s) * blockDim.x * N, count, whole, v[s]);
    }
}

template <template <typename> class F, typename T>
__device__ void backward(const T* saved, const T* g, T* out, u64 count) {
    using Function = F<typename MathOf<T>::M>;
    constexpr int N = Vector<T>::N;
    bool whole = aligned(saved, g, out);
    u64 first = (u64(blockIdx.x) * blockDim.x * STEPS + threadIdx.x) * N;
    Vector<T> v[STEPS], h[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        v[s] = load_some(saved, first + u64(s) * blockDim.x * N, count, whole);
        h[s] = load_some(g, first + u64(s) * blockDim.x * N, count, whole);
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < N; i++) h[s].set(i, Function::gradient(v[s][i], h[s][i]));
        store_some(out, first + u64(s) * blockDim.x * N, count, whole, h[s]);
    }
}

#define KERNELS(name, F, type, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256, 4) forward_##name##_##type(const T* x, T* y, u64 count) {         \
        forward<F, T>(x, y, count);                                                                                  \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                                \
        backward_##name##_##type(const T* saved, const T* g, T* out, u64 count) {                                    \
        backward<F, T>(saved, g, out, count);                                                                        \
    }

#define FUNCTION(name, F)                                                                                            \
    KERNELS(name, F, f32, float)                                                                                     \
    KERNELS(name, F, bf16, bf16)

FOR_FUNCTIONS(FUNCTION)
