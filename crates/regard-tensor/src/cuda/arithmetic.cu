// Arithmetic on two arrays, one or both of which may be broadcast, and simple maps.

#include "axes.cuh"

struct Add {
    static __device__ float of(float a, float b) { return a + b; }
};
struct Subtract {
    static __device__ float of(float a, float b) { return a - b; }
};
struct Multiply {
    static __device__ float of(float a, float b) { return a * b; }
};
struct Divide {
    static __device__ float of(float a, float b) { return a / b; }
};

// One vector of an operand, or its one value in every place.
template <typename T> __device__ Vector<T> operand(const T* from, bool moves) {
    if (moves) return load(from);
    Vector<T> v;
    for (int i = 0; i < Vector<T>::N; i++) v.at[i] = *from;
    return v;
}

// The output is contiguous. `outer` has all axes but the last; along the last, of `columns` vectors, an operand moves by
// one value or not at all.
template <typename F, typename T>
__device__ void vectors(const T* a, const T* b, T* out, const Axes& outer, u32 count, u32 columns, bool a_moves,
                        bool b_moves) {
    constexpr int N = Vector<T>::N;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    u32 row = index / columns;
    u64 column = u64(index - row * columns) * N;
    Offsets at = offsets(outer, row);
    Vector<T> x = operand(a + at.first + (a_moves ? column : 0), a_moves);
    Vector<T> y = operand(b + at.second + (b_moves ? column : 0), b_moves);
    for (int i = 0; i < N; i++) x.set(i, F::of(x[i], y[i]));
    store(out + u64(index) * N, x);
}

// One value a thread, for shapes that vectors do not divide.
template <typename F, typename T>
__device__ void values(const T* a, const T* b, T* out, const Axes& axes, u32 count) {
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    Offsets at = offsets(axes, index);
    out[index] = from_float<T>(F::of(to_float(a[at.first]), to_float(b[at.second])));
}

#define KERNELS(name, F, type, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        vectors_##name##_##type(const T* a, const T* b, T* out, Axes outer, u32 count, u32 columns, bool a_moves,    \
                                bool b_moves) {                                                                      \
        vectors<F, T>(a, b, out, outer, count, columns, a_moves, b_moves);                                           \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        values_##name##_##type(const T* a, const T* b, T* out, Axes axes, u32 count) {                               \
        values<F, T>(a, b, out, axes, count);                                                                        \
    }

#define OPERATION(name, F)                                                                                           \
    KERNELS(name, F, f32, float)                                                                                     \
    KERNELS(name, F, bf16, bf16)

OPERATION(add, Add)
OPERATION(subtract, Subtract)
OPERATION(multiply, Multiply)
OPERATION(divide, Divide)

// Sums over the axes of a broadcast: a thread takes one output and walks the summed axes. Both lists have the strides of x
// as `first`.
template <typename T>
__device__ void sum_to(const T* x, float* out, const Axes& kept, const Axes& summed, u32 count, u32 terms) {
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    x += offsets(kept, index).first;
    float total = 0.0f;
    for (u32 i = 0; i < terms; i++) total += to_float(x[offsets(summed, i).first]);
    out[index] = total;
}

// total += x
template <typename A, typename B> __device__ void accumulate(A* total, const B* x, u64 count) {
    constexpr int N = 4;
    u64 first = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * N;
    if (first + N <= count && aligned(total, x)) {
        Some<A, N> t = load_n<N>(total + first);
        Some<B, N> v = load_n<N>(x + first);
        for (int i = 0; i < N; i++) t.at[i] = from_float<A>(to_float(t.at[i]) + to_float(v.at[i]));
        store_n(total + first, t);
    } else {
        for (u64 i = first; i < first + N && i < count; i++)
            total[i] = from_float<A>(to_float(total[i]) + to_float(x[i]));
    }
}

// out = x·scale + shift, where `factor` (one value, may be null) also multiplies; the types may differ.
template <typename From, typename To>
__device__ void affine(const From* x, To* out, const float* factor, float scale, float shift, u64 count) {
    constexpr int N = 4;
    u64 first = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * N;
    if (factor) scale *= *factor;
    if (first + N <= count && aligned(x, out)) {
        Some<From, N> v = load_n<N>(x + first);
        Some<To, N> y;
        for (int i = 0; i < N; i++) y.at[i] = from_float<To>(to_float(v.at[i]) * scale + shift);
        store_n(out + first, y);
    } else {
        for (u64 i = first; i < first + N && i < count; i++) out[i] = from_float<To>(to_float(x[i]) * scale + shift);
    }
}

#define SUM_TO(name, T)                                                                                              \
    extern "C" __global__ void sum_to_##name(const T* x, float* out, Axes kept, Axes summed, u32 count, u32 terms) { \
        sum_to<T>(x, out, kept, summed, count, terms);                                                               \
    }

SUM_TO(f32, float)
SUM_TO(bf16, bf16)

#define ACCUMULATE(name, A, B)                                                                                       \
    extern "C" __global__ void accumulate_##name(A* total, const B* x, u64 count) { accumulate<A, B>(total, x, count); }

ACCUMULATE(f32_f32, float, float)
ACCUMULATE(f32_bf16, float, bf16)
ACCUMULATE(bf16_bf16, bf16, bf16)

#define AFFINE(name, From, To)                                                                                       \
    extern "C" __global__ void affine_##name(const From* x, To* out, const float* factor, float scale, float shift,  \
                                             u64 count) {                                                            \
        affine<From, To>(x, out, factor, scale, shift, count);                                                       \
    }

AFFINE(f32_f32, float, float)
AFFINE(f32_bf16, float, bf16)
AFFINE(f32_f16, float, f16)
AFFINE(bf16_f32, bf16, float)
AFFINE(bf16_bf16, bf16, bf16)
AFFINE(bf16_f16, bf16, f16)
AFFINE(f16_f32, f16, float)
AFFINE(f16_bf16, f16, bf16)

// out = value
#define FILL(name, T)                                                                                                \
    extern "C" __global__ void fill_##name(T* out, float value, u64 count) {                                         \
        u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;                                                          \
        if (i < count) out[i] = from_float<T>(value);                                                                \
    }

FILL(f32, float)
FILL(bf16, bf16)
FILL(f16, f16)
