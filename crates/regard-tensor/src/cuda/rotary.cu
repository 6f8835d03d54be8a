// Rotation of pairs of values by an angle that grows with position. Rows are (batch·time), each of `heads` heads of
// `width` values, of which the first `rotated` turn; the others are copied.

#include "values.cuh"

struct Rotation {
    const float* cos; // (positions, rotated / 2)
    const float* sin;
    const u32* positions; // one for each row
    u32 heads, width, rotated;
    float direction; // 1 to rotate, -1 to rotate back: the gradient
};

// N pairs of one head. HALVES pairs value i with i + rotated/2, else 2i with 2i + 1.
template <typename T, int N, bool HALVES>
__device__ void turn(const T* x, T* out, const float* cos, const float* sin, u32 pair, const Rotation& r) {
    Some<T, N> a, b, first, second;
    Some<T, 2 * N> both;
    // One pair need not begin where two values can be read at once.
    constexpr bool APART = HALVES || N == 1;
    u32 at_a = HALVES ? pair : 2 * pair, at_b = HALVES ? pair + r.rotated / 2 : 2 * pair + 1;
    if constexpr (APART) {
        a = load_n<N>(x + at_a);
        b = load_n<N>(x + at_b);
    } else {
        both = load_n<2 * N>(x + at_a);
        for (int i = 0; i < N; i++) {
            a.at[i] = both.at[2 * i];
            b.at[i] = both.at[2 * i + 1];
        }
    }
    for (int i = 0; i < N; i++) {
        float c = cos[pair + i], s = sin[pair + i] * r.direction;
        first.at[i] = from_float<T>(to_float(a.at[i]) * c - to_float(b.at[i]) * s);
        second.at[i] = from_float<T>(to_float(b.at[i]) * c + to_float(a.at[i]) * s);
    }
    if constexpr (APART) {
        store_n(out + at_a, first);
        store_n(out + at_b, second);
    } else {
        for (int i = 0; i < N; i++) {
            both.at[2 * i] = first.at[i];
            both.at[2 * i + 1] = second.at[i];
        }
        store_n(out + at_a, both);
    }
}

// A thread takes N pairs, or N of the values that do not turn.
template <typename T, int N, bool HALVES> __device__ void rotate(const T* x, T* out, u64 rows, const Rotation& r) {
    u32 turning = r.rotated / 2 / N, groups = turning + (r.width - r.rotated) / N;
    u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= rows * r.heads * groups) return;
    u32 head_row = u32(index / groups), group = u32(index - u64(head_row) * groups);
    u64 row = head_row / r.heads, start = u64(head_row) * r.width;
    if (group < turning) {
        u64 angles = u64(r.positions[row]) * (r.rotated / 2);
        turn<T, N, HALVES>(x + start, out + start, r.cos + angles, r.sin + angles, group * N, r);
    } else {
        u64 at = start + r.rotated + (group - turning) * N;
        store_n(out + at, load_n<N>(x + at));
    }
}

#define ROTATE(name, T, N, HALVES)                                                                                   \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        rotate_##name(const T* x, T* out, const float* cos, const float* sin, const u32* positions, u64 rows,        \
                      u32 heads, u32 width, u32 rotated, float direction) {                                          \
        rotate<T, N, HALVES>(x, out, rows, {cos, sin, positions, heads, width, rotated, direction});                 \
    }

// Four pairs where the widths allow it, else one.
#define PAIRING(name, HALVES)                                                                                        \
    ROTATE(name##_f32_1, float, 1, HALVES)                                                                           \
    ROTATE(name##_bf16_1, bf16, 1, HALVES)                                                                           \
    ROTATE(name##_bf16_4, bf16, 4, HALVES)

PAIRING(halves, true)
PAIRING(interleaved, false)
ROTATE(halves_f32_4, float, 4, true)
ROTATE(interleaved_f32_2, float, 2, false)
