// From products to scores in a warp's registers: scale, soft cap, bias, masks, and which weights dropout keeps.
//
// Scores are in units of log₂, so that a weight is one exp2. Without bias and soft cap, products stay as they are and the scale becomes part
// of the exponent, weight = 2^(product·factor − …): one multiply-add an element.
//
// A tile's rows are queries and its columns keys, or the other way round if `transposed` (the gradients of keys and values).
#pragma once
#include "mma.cuh"

constexpr bool plain_scores = !has_bias && !has_soft_cap;
/// Whether a score needs no more registers than itself: variants that do hold smaller tiles.
constexpr bool few_registers = plain_scores && !has_key_mask && !has_dropout;

/// What scores are multiplied with to be in units of log₂. Never 0, so that −∞ stays −∞. `finish_scores` takes care of a negative scale.
__device__ inline float score_factor(const Problem& p) { return plain_scores ? fmaxf(fabsf(p.scale) * LOG2_E, 1e-30f) : 1.0f; }

/// Calls `f(r, c, e)` for each element of a lane.
template <int row_tiles, int columns, typename F>
__device__ inline void for_each(const Sums<row_tiles, columns>&, F f) {
#pragma unroll
    for (int r = 0; r < row_tiles; r++)
#pragma unroll
        for (int c = 0; c < columns / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) f(r, c, e);
}

template <bool transposed>
__device__ inline int query_of(const TileAt& at, int r, int c, int e) {
    return at.query_start + (transposed ? sums_column(c, e) : sums_row(r, e));
}
template <bool transposed>
__device__ inline int key_of(const TileAt& at, int r, int c, int e) {
    return at.key_start + (transposed ? sums_row(r, e) : sums_column(c, e));
}

/// The derivatives of a soft cap; takes no registers without one.
template <int row_tiles, int columns>
using Derivatives = Sums<row_tiles, has_soft_cap ? columns : 8>;

/// Products become scores (up to `score_factor`), −∞ where a pair may not attend.
template <bool transposed, int row_tiles, int columns>
__device__ inline void finish_scores(const Problem& p, const TileAt& at, Sums<row_tiles, columns>& scores, Derivatives<row_tiles, columns>& derivatives) {
    if constexpr (!plain_scores) {
        for_each(scores, [&](int r, int c, int e) {
            float derivative, &score = scores.at[r][c][e];
            score = pair_score(p, at, query_of<transposed>(at, r, c, e), key_of<transposed>(at, r, c, e), score, derivative);
            if constexpr (has_soft_cap) derivatives.at[r][c][e] = derivative;
        });
    } else if (p.scale < 0.0f) {
        for_each(scores, [&](int r, int c, int e) { scores.at[r][c][e] = -scores.at[r][c][e]; });
    }
    if (!all_allowed(p, at, transposed ? row_tiles * 16 : columns)) {
        for_each(scores, [&](int r, int c, int e) {
            const bool attends = allowed(p, at, query_of<transposed>(at, r, c, e), key_of<transposed>(at, r, c, e));
            if (!attends) scores.at[r][c][e] = negative_infinity();
        });
    }
}

/// The random words of the four elements of a lane in a 16×8 piece, each block of four drawn once.
///
/// A Philox block has four neighbouring keys of a query. Where keys are columns, they belong to two neighbouring lanes, which also share the query eight
/// rows below: each of the two draws one block and gives half of it to the other.
__device__ inline void draw(const Problem& p, const TileAt& at, int r, int c, u32 (&words)[4]) {
    const bool odd = threadIdx.x & 1;
    const uint4 own = dropout_words(p, at, at.query_start + sums_row(r, odd ? 2 : 0), (at.key_start + sums_column(c, 0)) / 4);
    const u32 given0 = __shfl_xor_sync(0xffffffff, odd ? own.x : own.z, 1);
    const u32 given1 = __shfl_xor_sync(0xffffffff, odd ? own.y : own.w, 1);
    words[0] = odd ? given0 : own.x;
    words[1] = odd ? given1 : own.y;
    words[2] = odd ? own.z : given0;
    words[3] = odd ? own.w : given1;
}

/// Where keys are rows, four lanes (4 apart) have four neighbouring keys, for two queries and for two groups of keys eight rows apart: each draws one
/// of these four blocks, and they transpose the 4×4 words between them.
__device__ inline void draw_transposed(const Problem& p, const TileAt& at, int r, int c, u32 (&words)[4]) {
    const int turn = threadIdx.x / 4 % 4;
    const int query = at.query_start + sums_column(c, turn & 1), key = at.key_start + sums_row(r, turn & 2 ? 2 : 0);
    const uint4 own = dropout_words(p, at, query, key / 4);
    const bool bit0 = turn & 1, bit1 = turn & 2;
    const u32 a = __shfl_xor_sync(0xffffffff, bit0 ? own.x : own.y, 4), b = __shfl_xor_sync(0xffffffff, bit0 ? own.z : own.w, 4);
    const u32 w0 = bit0 ? a : own.x, w1 = bit0 ? own.y : a, w2 = bit0 ? b : own.z, w3 = bit0 ? own.w : b;
    const u32 d = __shfl_xor_sync(0xffffffff, bit1 ? w0 : w2, 8), e = __shfl_xor_sync(0xffffffff, bit1 ? w1 : w3, 8);
    words[0] = bit1 ? d : w0;
    words[1] = bit1 ? e : w1;
    words[2] = bit1 ? w2 : d;
    words[3] = bit1 ? w3 : e;
}

/// Makes the weights that dropout removes negative: the backward pass still needs their size. Products take a negative weight as 0 (`kept`), and results
/// are multiplied with the dropout's scale at the end.
template <bool transposed, int row_tiles, int columns>
__device__ inline void mark_dropped(const Problem& p, const TileAt& at, Sums<row_tiles, columns>& weights) {
#pragma unroll
    for (int r = 0; r < row_tiles; r++)
#pragma unroll
        for (int c = 0; c < columns / 8; c++) {
            u32 words[4];
            if constexpr (transposed) draw_transposed(p, at, r, c, words); else draw(p, at, r, c, words);
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (words[e] < p.dropout.threshold) weights.at[r][c][e] = -weights.at[r][c][e];
        }
}
