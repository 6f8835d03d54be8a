// Values in memory are f32, bf16 or f16; arithmetic on them is f32.
//
// A thread moves 16 bytes at a time where it can: `Vector<T>::N` values. NVRTC brings no headers, so the two half types
// are defined here, as their bits.

#pragma once

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

struct bf16 {
    unsigned short bits;
};

struct f16 {
    unsigned short bits;
};

__device__ inline float infinity() { return __int_as_float(0x7f800000); }

__device__ inline float to_float(float x) { return x; }

__device__ inline float to_float(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }

__device__ inline float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

template <typename T> __device__ T from_float(float x);

template <> __device__ inline float from_float<float>(float x) { return x; }

template <> __device__ inline bf16 from_float<bf16>(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

template <> __device__ inline f16 from_float<f16>(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

// Whether pointers can be read and written 16 bytes at a time.
template <typename... P> __device__ bool aligned(const P*... pointers) {
    return ((reinterpret_cast<size_t>(pointers) | ...) & 15) == 0;
}

// As many values as 16 bytes hold, as they lie in memory.
template <typename T> struct alignas(16) Vector {
    static constexpr int N = 16 / sizeof(T);
    T at[N];

    __device__ float operator[](int i) const { return to_float(at[i]); }
    __device__ void set(int i, float x) { at[i] = from_float<T>(x); }
};

// Both halves of a word at once.
template <> __device__ inline float Vector<bf16>::operator[](int i) const {
    return __uint_as_float(i % 2 ? reinterpret_cast<const u32*>(at)[i / 2] & 0xffff0000u
                                 : reinterpret_cast<const u32*>(at)[i / 2] << 16);
}

// Numbers rounded to a vector; two of them at once where there is an instruction for it.
template <typename T> __device__ Vector<T> to_vector(const float (&x)[Vector<T>::N]) {
    Vector<T> v;
    for (int i = 0; i < Vector<T>::N; i++) v.set(i, x[i]);
    return v;
}

template <> __device__ inline Vector<bf16> to_vector<bf16>(const float (&x)[8]) {
    Vector<bf16> v;
#pragma unroll
    for (int i = 0; i < 4; i++)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(reinterpret_cast<u32*>(v.at)[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
    return v;
}

template <typename T> __device__ Vector<T> load(const T* from) {
    Vector<T> v;
    *reinterpret_cast<uint4*>(&v) = *reinterpret_cast<const uint4*>(from);
    return v;
}

template <typename T> __device__ void store(T* to, const Vector<T>& v) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&v);
}

// The same for global memory, where the compiler would store a vector in pieces: it does if single values are read after they were rounded.
template <typename T> __device__ void store_whole(T* to, const Vector<T>& v) {
    const u32* words = reinterpret_cast<const u32*>(&v);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
}

// The values from `start` on as far as `end`; beyond it, zeros. `whole` says that 16 bytes may be moved at a time.
template <typename T> __device__ Vector<T> load_some(const T* from, u64 start, u64 end, bool whole) {
    if (whole && start + Vector<T>::N <= end) return load(from + start);
    Vector<T> v;
    for (int i = 0; i < Vector<T>::N; i++) v.set(i, start + i < end ? to_float(from[start + i]) : 0.0f);
    return v;
}

template <typename T> __device__ void store_some(T* to, u64 start, u64 end, bool whole, const Vector<T>& v) {
    if (whole && start + Vector<T>::N <= end) return store(to + start, v);
    for (int i = 0; i < Vector<T>::N; i++)
        if (start + i < end) to[start + i] = v.at[i];
}

// N neighbouring f32 values, such as a part of a norm's weight.
template <int N> struct Floats {
    float at[N];
};

template <int N> __device__ Floats<N> load_floats(const float* from) {
    Floats<N> v;
    for (int i = 0; i < N / 4; i++)
        *reinterpret_cast<float4*>(v.at + 4 * i) = *reinterpret_cast<const float4*>(from + 4 * i);
    return v;
}

template <int N> __device__ void store_floats(float* to, const Floats<N>& v) {
    for (int i = 0; i < N / 4; i++)
        *reinterpret_cast<float4*>(to + 4 * i) = *reinterpret_cast<const float4*>(v.at + 4 * i);
}

// An integer type of some bytes, to move several values at once.
template <int BYTES> struct Wide;
template <> struct Wide<2> {
    using T = unsigned short;
};
template <> struct Wide<4> {
    using T = u32;
};
template <> struct Wide<8> {
    using T = uint2;
};
template <> struct Wide<16> {
    using T = uint4;
};

// N values of one type, moved at once where types of different widths meet.
template <typename T, int N> struct alignas(sizeof(T) * N) Some {
    T at[N];
};

template <int N, typename T> __device__ Some<T, N> load_n(const T* from) {
    using W = typename Wide<sizeof(T) * N>::T;
    Some<T, N> v;
    *reinterpret_cast<W*>(&v) = *reinterpret_cast<const W*>(from);
    return v;
}

template <int N, typename T> __device__ void store_n(T* to, const Some<T, N>& v) {
    using W = typename Wide<sizeof(T) * N>::T;
    *reinterpret_cast<W*>(to) = *reinterpret_cast<const W*>(&v);
}
