// What happens to one pair (query, key): whether it may attend, its score, its dropout.
#pragma once
#include "problem.cuh"

/// A tile of pairs of one head.
struct TileAt {
    int example, head, query_start, key_start;
    /// A block's words, one for each key; null if the pattern allows all pairs.
    const u64* bits;
};

__device__ inline const u64* block_bits(const Problem& p, Block block) {
    return has_pattern && block.bits >= 0 ? p.pattern.bits + i64(block.bits) * BLOCK : nullptr;
}

/// Whether all pairs of a tile may attend, so that none has to be checked. Queries past the last do not matter.
__device__ inline bool all_allowed(const Problem& p, const TileAt& at, int keys) {
    const int last = at.key_start + keys - 1;
    return last < p.keys && (!causal || last <= at.query_start + p.offset()) && !has_key_mask && !at.bits;
}

__device__ inline bool allowed(const Problem& p, const TileAt& at, int query, int key) {
    if (key >= p.keys || (causal && key > query + p.offset())) return false;
    if (has_key_mask && !p.key_mask[i64(at.example) * p.keys + key]) return false;
    return !has_pattern || !at.bits || (at.bits[key % BLOCK] >> (query % BLOCK) & 1);
}

/// What is added to the score of a pair. Pairs outside the sizes read the nearest value inside.
__device__ inline float pair_bias(const Problem& p, const TileAt& at, int query, int key) {
    query = min(query, p.queries - 1);
    key = min(key, p.keys - 1);
    if (dense_bias) {
        const i64 plane = at.example * p.bias_batch_stride + at.head * p.bias_head_stride;
        return p.bias[plane + i64(query) * p.keys + key];
    }
    return p.bias[i64(at.head) * (p.queries + p.keys - 1) + query - key + p.keys - 1];
}

/// cap·tanh(x / cap), and its derivative for the backward pass.
__device__ inline float soft_cap(const Problem& p, float x, float& derivative) {
    const float t = tanhf(x / p.soft_cap);
    derivative = 1.0f - t * t;
    return t * p.soft_cap;
}

/// The score of a pair that may attend, in units of log₂ (a weight is then one exp2), from the product query·key. `derivative` is
/// that of the score by scale·query·key.
__device__ inline float pair_score(const Problem& p, const TileAt& at, int query, int key, float product, float& derivative) {
    float score = product * p.scale;
    derivative = 1.0f;
    if (has_soft_cap) score = soft_cap(p, score, derivative);
    if (has_bias) score += pair_bias(p, at, query, key);
    return score * LOG2_E;
}

/// Philox4x32-10 (Salmon et al., 2011): four random words for a block of four elements of an example.
__device__ inline uint4 philox(u32 k0, u32 k1, u64 example, u64 block) {
    uint4 c = make_uint4(u32(block), u32(block >> 32), u32(example), u32(example >> 32));
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const u64 a = u64(0xd2511f53u) * c.x, b = u64(0xcd9e8d57u) * c.z;
        c = make_uint4(u32(b >> 32) ^ c.y ^ k0, u32(b), u32(a >> 32) ^ c.w ^ k1, u32(a));
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return c;
}

/// The words of the keys 4·`group`, … of a query: a block holds four neighbouring keys.
__device__ inline uint4 dropout_words(const Problem& p, const TileAt& at, int query, int group) {
    const u64 row = u64(at.head) * p.queries + query;
    const Dropout& d = p.dropout;
    u32 k0 = d.key[0], k1 = d.key[1];
    // Read each time (from the cache): the widest kernels have no registers left to keep it.
    if constexpr (recorded_key) asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(k0), "=r"(k1) : "l"(d.key_at));
    return philox(k0, k1, d.first_example + at.example, row * ceil_div(p.keys, 4) + group);
}

/// What dropout multiplies a weight with: 0 or the scale.
__device__ inline float dropout_factor(const Problem& p, u32 word) {
    return word >= p.dropout.threshold ? p.dropout.scale : 0.0f;
}

__device__ inline float dropout_factor(const Problem& p, const TileAt& at, int query, int key) {
    const uint4 words = dropout_words(p, at, query, key / 4);
    const u32 word = key & 2 ? (key & 1 ? words.w : words.z) : (key & 1 ? words.y : words.x);
    return dropout_factor(p, word);
}
