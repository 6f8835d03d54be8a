// Dropout by place: each value is multiplied by 0 or `scale`, as a random word says that depends on the key, the example
// and the value's index in the example alone. The words are those of Philox4x32-10, as on the CPU.
//
// A recorded step reads its key from memory, where each replay finds another; `key_at` is null otherwise.

#include "values.cuh"

struct Words {
    u32 at[4];
};

__device__ Words philox(u32 key0, u32 key1, u64 example, u64 block) {
    Words c = {u32(block), u32(block >> 32), u32(example), u32(example >> 32)};
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u64 a = u64(0xd2511f53u) * c.at[0], b = u64(0xcd9e8d57u) * c.at[2];
        c = {u32(b >> 32) ^ c.at[1] ^ key0, u32(b), u32(a >> 32) ^ c.at[3] ^ key1, u32(a)};
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return c;
}

// A thread takes one vector of an example: one or two blocks of four words.
template <typename T>
__device__ void apply(const T* x, T* out, const u32* key_at, u32 key0, u32 key1, u64 first_example, u64 examples,
                      u64 per_example, u32 threshold, float scale) {
    constexpr int N = Vector<T>::N;
    if (key_at) {
        key0 = key_at[0];
        key1 = key_at[1];
    }
    u64 start = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * N;
    if (start >= per_example) return;
    bool whole = aligned(x, out) && per_example % N == 0;
    for (u64 example = blockIdx.y; example < examples; example += gridDim.y) {
        Vector<T> v = load_some(x + example * per_example, start, per_example, whole);
#pragma unroll
        for (int block = 0; block < N / 4; block++) {
            Words words = philox(key0, key1, first_example + example, start / 4 + block);
            for (int i = 0; i < 4; i++) {
                int at = 4 * block + i;
                v.set(at, words.at[i] >= threshold ? v[at] * scale : 0.0f);
            }
        }
        store_some(out + example * per_example, start, per_example, whole, v);
    }
}

#define APPLY(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        apply_##name(const T* x, T* out, const u32* key_at, u32 key0, u32 key1, u64 first_example, u64 examples,     \
                     u64 per_example, u32 threshold, float scale) {                                                  \
        apply<T>(x, out, key_at, key0, key1, first_example, examples, per_example, threshold, scale);                \
    }

APPLY(f32, float)
APPLY(bf16, bf16)
