// A tile of the backward pass in f32: weights P and slopes dS of 64×64 pairs, recomputed from the log-sum-exp.
//
//     P = 2^(score − lse)      dP = dO·Vᵀ      dS = P ∘ (M ∘ dP − delta)      M: dropout's factors
#pragma once
#include "ffma.cuh"

/// What the backward pass needs of a row: the log-sum-exp in units of log₂ and delta. Rows without weights get +∞: their weights are 0.
__device__ inline void load_row(const Problem& p, int example, int head, int query, float& lse, float& delta) {
    const bool inside = query < p.queries;
    const i64 row = inside ? p.row(example, head, query) : 0;
    const float saved = inside ? p.log_sum_exp[row] : negative_infinity();
    lse = saved == negative_infinity() ? positive_infinity() : saved * LOG2_E;
    delta = inside ? p.delta[row] : 0.0f;
}

/// Weights (after dropout) and slopes of the scores. Rows are queries, or keys if `transposed`. `slopes` ends as the gradient of what was
/// added to the scores; `derivatives` times that is the gradient of scale·Q·Kᵀ.
template <bool transposed>
__device__ inline void weights_and_slopes(const Problem& p, const TileAt& at, Part& weights, Part& slopes, Part& derivatives) {
    const int kv_head = p.kv_head(at.head);
    const Rows query = {p.query, at.head, at.query_start, p.queries}, upstream = {p.upstream, at.head, at.query_start, p.queries};
    const Rows key = {p.key, kv_head, at.key_start, p.keys}, value = {p.value, kv_head, at.key_start, p.keys};
    product(weights, at.example, transposed ? key : query, transposed ? query : key, width);
    product(slopes, at.example, transposed ? value : upstream, transposed ? upstream : value, value_width);
    float lse[4], delta[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        load_row(p, at.example, at.head, at.query_start + (transposed ? part_column(i) : part_row(i)), lse[i], delta[i]);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int query = at.query_start + (transposed ? part_column(j) : part_row(i));
            const int key = at.key_start + (transposed ? part_row(i) : part_column(j));
            const int row = transposed ? j : i;
            const float score = pair_score(p, at, query, key, weights[i][j], derivatives[i][j]);
            const float weight = allowed(p, at, query, key) ? exp2f(score - lse[row]) : 0.0f;
            const float factor = has_dropout ? dropout_factor(p, at, query, key) : 1.0f;
            slopes[i][j] = weight * (factor * slopes[i][j] - delta[row]);
            weights[i][j] = weight * factor;
        }
}
