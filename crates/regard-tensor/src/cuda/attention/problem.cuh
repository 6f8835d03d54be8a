// The sizes, memory layouts and rules of an attention, shared by every kernel in this folder.
//
//     output = softmax(cap(scale·Q·Kᵀ) + bias)·V        over the pairs (query, key) that may attend
//
// A variant is one compilation. Its features are macros, so that a plain causal kernel contains no trace of the others:
//
//     ELEMENT_BF16           0: float, 1: bf16 (queries, keys, values, output and their gradients)
//     WIDTH, VALUE_WIDTH     features of a query or key, and of a value
//     CAUSAL                 a query attends to its own position and earlier ones; the last query stands at the last key
//     KEY_MASK               a byte for each (example, key): 0 is padding
//     PATTERN                a pattern of 64×64 blocks
//     BIAS                   0: none, 1: a value for each pair, 2: a value for each head and distance
//     SOFT_CAP               cap(x) = c·tanh(x / c)
//     SINK                   a logit for each head that takes weight and has no value
//     DROPOUT                on the weights, drawn by Philox from (example, head, query, key); 2: with a key in memory
//
// Positions and sizes are 32-bit; offsets into memory are 64-bit.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr bool causal = CAUSAL, has_key_mask = KEY_MASK, has_pattern = PATTERN, has_soft_cap = SOFT_CAP;
constexpr bool has_sink = SINK, has_dropout = DROPOUT != 0, recorded_key = DROPOUT == 2;
constexpr bool has_bias = BIAS != 0, dense_bias = BIAS == 1, distance_bias = BIAS == 2;
constexpr int width = WIDTH, value_width = VALUE_WIDTH;

/// Queries and keys of a block of a pattern.
constexpr int BLOCK = 64;

constexpr float LOG2_E = 1.44269504088896341f, LN_2 = 0.693147180559945309f;

__device__ inline float negative_infinity() { return __int_as_float(0xff800000); }
__device__ inline float positive_infinity() { return __int_as_float(0x7f800000); }

#if ELEMENT_BF16
/// The upper half of a float.
struct __align__(2) Element { unsigned short bits; };
__device__ inline float to_float(Element x) { return __uint_as_float(u32(x.bits) << 16); }
/// Rounds to nearest, ties to even. Infinities stay; a NaN stays a NaN.
__device__ inline Element to_element(float x) {
    const u32 bits = __float_as_uint(x);
    if (x != x) return {(unsigned short)0x7fff};
    return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
#else
typedef float Element;
__device__ inline float to_float(Element x) { return x; }
__device__ inline Element to_element(float x) { return x; }
#endif

/// Where heads lie: value (example, head, time, feature) is at example·batch + head·head + time·row + feature. Queries, keys and
/// values may be parts of one fused projection.
struct Heads {
    Element* data;
    i64 batch_stride, head_stride, row_stride;

    __device__ Element* at(int example, int head, int time) const {
        return data + example * batch_stride + head * head_stride + time * row_stride;
    }
};

/// A block of a pattern in a row (its key block) or column (its query block).
struct Block {
    int index;
    /// Where its 64 words are, one for each key with a bit for each query; −1: all pairs are allowed.
    int bits;
};

/// The non-empty blocks, by rows for the passes over queries and by columns for those over keys. `starts` has one more entry than
/// there are rows (columns) in a plane, for each plane.
struct Pattern {
    const int* row_starts;
    const Block* row_blocks;
    const int* column_starts;
    const Block* column_blocks;
    const u64* bits;
    /// How many examples and heads have a pattern of their own; 1: shared.
    int batch, heads;
};

/// Dropout keeps a weight whose random word is at or above the threshold, and multiplies it with the scale. A recorded step reads its key
/// from `key_at`, where each replay finds another.
struct Dropout {
    const u32* key_at;
    u32 key[2];
    u64 first_example;
    u32 threshold;
    float scale;
};

/// The log-sum-exp of a query in units of log₂, and delta = Σ output·upstream. A query without weights, or past the last, has +∞ and 0: its
/// weights 2^(score − ∞) and slopes are then 0 without a check.
struct __align__(8) SavedRow {
    float lse, delta;
};

struct Problem {
    Heads query, key, value, output;
    /// ln Σ e^score, (batch, heads, queries).
    float* log_sum_exp;
    /// The gradient of the output, and the gradients to compute.
    Heads upstream, query_gradient, key_gradient, value_gradient;
    /// What the backward pass needs of a query, (batch, heads, padded queries): written by `attention_delta`, read by the rest.
    SavedRow* saved_rows;
    /// Sums of the gradient of the queries, tile after tile, and how many parts each has got: where one kernel computes all gradients. Else null.
    float* query_sums;
    u32* turns;
    const unsigned char* key_mask;
    /// Dense: (queries, keys) in each plane, with strides between planes, 0 where they are shared.
    /// By distance: (heads, queries + keys − 1), at query − key + keys − 1.
    const float* bias;
    float* bias_gradient;
    i64 bias_batch_stride, bias_head_stride;
    const float* sink;
    float* sink_gradient;
    Pattern pattern;
    Dropout dropout;
    int batch, heads, kv_heads, queries, keys;
    float scale, soft_cap;

    /// Query i stands at the position of key i + offset.
    __device__ int offset() const { return keys - queries; }
    __device__ int kv_head(int head) const { return head / (heads / kv_heads); }
    /// The place of a query in `log_sum_exp` and in `saved_rows`, which is padded for tiles of up to 128 queries.
    __device__ i64 row(int example, int head, int query) const { return (i64(example) * heads + head) * queries + query; }
    __device__ int padded_queries() const { return (queries + 127) / 128 * 128; }
    __device__ SavedRow* saved_row(int example, int head, int query) const {
        return saved_rows + (i64(example) * heads + head) * padded_queries() + query;
    }
    /// Of the 32 queries that begin at `query`.
    __device__ u32* turn(int example, int head, int query) const {
        return turns + ((i64(example) * heads + head) * padded_queries() + query) / 32;
    }
};

/// 2^x for the difference x between a score and the log-sum-exp of its row. It is never above 0 but for rounding, which with scores of
/// millions is enough for an infinite weight. NaN stays NaN.
__device__ inline float at_most_zero(float x) {
    asm("min.NaN.f32 %0, %0, 0f00000000;" : "+f"(x));
    return x;
}
__device__ inline float weight_of(float x) { return exp2f(at_most_zero(x)); }

__device__ inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// The tiles to visit, in ascending order: a range, or the parts of the blocks in a pattern's list.
struct Tiles {
    int first, count, per_block;
    const Block* blocks;

    __device__ Block operator[](int i) const {
        if constexpr (!has_pattern) return {first + i, -1};
        const Block block = blocks[first + i / per_block];
        return {block.index * per_block + i % per_block, block.bits};
    }
};

__device__ inline int pattern_plane(const Pattern& pattern, int example, int head) {
    return (pattern.batch == 1 ? 0 : example) * pattern.heads + (pattern.heads == 1 ? 0 : head);
}

/// The tiles of `tile` keys that queries `start..start + count` may attend to. With a pattern, the queries lie in one block, and so does each tile.
__device__ inline Tiles key_tiles(const Problem& p, int example, int head, int start, int count, int tile) {
    const int last = min(start + count, p.queries) - 1;
    const int end = causal ? max(0, min(last + p.offset() + 1, p.keys)) : p.keys;
    if constexpr (!has_pattern) return {0, ceil_div(end, tile), 1, nullptr};
    const int rows = ceil_div(p.queries, BLOCK);
    const int* starts = p.pattern.row_starts + i64(pattern_plane(p.pattern, example, head)) * (rows + 1) + start / BLOCK;
    int n = starts[1] - starts[0];
    while (causal && n > 0 && p.pattern.row_blocks[starts[0] + n - 1].index * BLOCK >= end) n--;
    return {starts[0], n * (BLOCK / tile), BLOCK / tile, p.pattern.row_blocks};
}

/// The tiles of `tile` queries that may attend to keys from `start` on.
__device__ inline Tiles query_tiles(const Problem& p, int example, int head, int start, int tile) {
    const int first_query = causal ? max(0, start - p.offset()) : 0;
    if constexpr (!has_pattern) {
        const int first = first_query / tile;
        return {first, max(0, ceil_div(p.queries, tile) - first), 1, nullptr};
    }
    const int columns = ceil_div(p.keys, BLOCK);
    const int* starts = p.pattern.column_starts + i64(pattern_plane(p.pattern, example, head)) * (columns + 1) + start / BLOCK;
    int first = starts[0];
    while (causal && first < starts[1] && (p.pattern.column_blocks[first].index + 1) * BLOCK <= first_query) first++;
    return {first, (starts[1] - first) * (BLOCK / tile), BLOCK / tile, p.pattern.column_blocks};
}
