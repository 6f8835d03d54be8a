// A tile of the bf16 backward pass in a warp's registers: weights P and slopes dS, recomputed from the log-sum-exp.
//
//     P = 2^(score − lse)      dP = dO·Vᵀ      dS = P ∘ (M ∘ dP − delta)      M: dropout's factors
#pragma once
#include "scores.cuh"

/// Log-sum-exp and delta of the queries of a tile, where queries are rows: in registers.
template <int row_tiles>
struct QueryRows {
    SavedRow row[row_tiles][2];

    /// Of the `inside` queries from the warp's first one on; those past the last get no weights.
    __device__ QueryRows(const SavedRow* rows, int inside) {
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = sums_row(r, 2 * half);
                row[r][half] = i < inside ? rows[i] : SavedRow{positive_infinity(), 0.0f};
            }
    }
    __device__ SavedRow get(int r, int, int e) const { return row[r][e / 2]; }
};

/// The same where queries are columns: in shared memory, read when needed.
struct QueryColumns {
    u32 address;

    __device__ SavedRow get(int, int c, int e) const {
        const uint4 two = load_shared(address + sums_column(c, 0) * sizeof(SavedRow));
        return e & 1 ? SavedRow{__uint_as_float(two.z), __uint_as_float(two.w)} : SavedRow{__uint_as_float(two.x), __uint_as_float(two.y)};
    }
};

/// Scores become weights, negative where dropout removes them.
template <bool transposed, int row_tiles, int columns, typename Rows>
__device__ inline void to_weights(const Problem& p, const TileAt& at, Sums<row_tiles, columns>& scores, const Rows& rows) {
    const float factor = score_factor(p);
    for_each(scores, [&](int r, int c, int e) { scores.at[r][c][e] = exp2_fast(at_most_zero(scores.at[r][c][e] * factor - rows.get(r, c, e).lse)); });
    if constexpr (has_dropout) mark_dropped<transposed>(p, at, scores);
}

/// Multiplies weights with the derivatives of the soft cap: slopes made from them are then the gradient of scale·Q·Kᵀ.
template <int row_tiles, int columns>
__device__ inline void apply_derivatives(Sums<row_tiles, columns>& weights, const Derivatives<row_tiles, columns>& derivatives) {
    if constexpr (has_soft_cap) for_each(weights, [&](int r, int c, int e) { weights.at[r][c][e] *= derivatives.at[r][c][e]; });
}

/// dP becomes dS.
template <int row_tiles, int columns, typename Rows>
__device__ inline void to_slopes(const Problem& p, Sums<row_tiles, columns>& slopes, const Sums<row_tiles, columns>& weights, const Rows& rows) {
    for_each(slopes, [&](int r, int c, int e) {
        const float weight = weights.at[r][c][e], delta = rows.get(r, c, e).delta;
        float& slope = slopes.at[r][c][e];
        if constexpr (has_dropout)
            slope = weight < 0.0f ? weight * delta : weight * (slope * p.dropout.scale - delta);
        else
            slope = weight * (slope - delta);
    });
}

/// Multiplies all elements.
template <int row_tiles, int columns>
__device__ inline void scale_sums(Sums<row_tiles, columns>& sums, float by) {
    for_each(sums, [&](int r, int c, int e) { sums.at[r][c][e] *= by; });
}
