// A tile of the backward pass in f32: weights P and slopes dS of 64×64 pairs, recomputed from the log-sum-exp.
//
//     P = 2^(score − lse)      dP = dO·Vᵀ      dS = P ∘ (M ∘ dP − delta)      M: dropout's factors
#pragma once
#include "ffma.cuh"

/// Weights (after dropout) and slopes of the scores. Rows are queries, or keys if `transposed`. `slopes` ends as the gradient of what was
/// added to the scores; `derivatives` times that is the gradient of scale·Q·Kᵀ.
template <bool transposed>
__device__ inline void weights_and_slopes(const Problem& p, const TileAt& at, Part& weights, Part& slopes, Part& derivatives) {
    const int kv_head = p.kv_head(at.head);
    const Rows query = {p.query, at.head, at.query_start, p.queries}, upstream = {p.upstream, at.head, at.query_start, p.queries};
    const Rows key = {p.key, kv_head, at.key_start, p.keys}, value = {p.value, kv_head, at.key_start, p.keys};
    product(weights, at.example, transposed ? key : query, transposed ? query : key, width);
    product(slopes, at.example, transposed ? value : upstream, transposed ? upstream : value, value_width);
    SavedRow saved[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        saved[i] = *p.saved_row(at.example, at.head, at.query_start + (transposed ? part_column(i) : part_row(i)));
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int query = at.query_start + (transposed ? part_column(j) : part_row(i));
            const int key = at.key_start + (transposed ? part_row(i) : part_column(j));
            const SavedRow row = saved[transposed ? j : i];
            const float score = pair_score(p, at, query, key, weights[i][j], derivatives[i][j]);
            const float weight = allowed(p, at, query, key) ? weight_of(score - row.lse) : 0.0f;
            const float factor = has_dropout ? dropout_factor(p, at, query, key) : 1.0f;
            slopes[i][j] = weight * (factor * slopes[i][j] - row.delta);
            weights[i][j] = weight * factor;
        }
}

/// dS becomes the gradient of Q·Kᵀ.
__device__ inline void scale_slopes(const Problem& p, Part& slopes, const Part& derivatives) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) slopes[i][j] *= p.scale * derivatives[i][j];
}
