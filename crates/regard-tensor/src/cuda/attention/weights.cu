// Any block of the weights of one or more heads, from queries, keys and the log-sum-exp; dropout is left out.
//
// Grid: (key tiles, query tiles, planes) over the block; plane z is head `first_plane + z` counted over all examples. Output: (planes, queries,
// keys) of the block, in f32.
#include "ffma_slopes.cuh"

struct WeightsBlock {
    float* out;
    int first_plane, query_start, queries, key_start, keys;
};

LAUNCH(attention_weights);
extern "C" __global__ void __launch_bounds__(THREADS) attention_weights(const __grid_constant__ Problem p, const __grid_constant__ WeightsBlock b) {
    const int plane = b.first_plane + blockIdx.z, example = plane / p.heads, head = plane % p.heads;
    const int first_query = blockIdx.y * SIDE, first_key = blockIdx.x * SIDE;
    TileAt at = {example, head, b.query_start + first_query, b.key_start + first_key, nullptr};
    Part weights;
    product(weights, example, {p.query, head, at.query_start, p.queries}, {p.key, p.kv_head(head), at.key_start, p.keys}, width);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int row = first_query + part_row(i), column = first_key + part_column(j);
            if (row >= b.queries || column >= b.keys) continue;
            const int query = b.query_start + row, key = b.key_start + column;
            bool attends = true;
            if (has_pattern) {
                // The block need not lie on the pattern's tiles: each pair looks for its own.
                attends = false;
                const Tiles tiles = key_tiles(p, example, head, query, 1, SIDE);
                for (int t = 0; t < tiles.count; t++)
                    if (tiles[t].index == key / BLOCK) attends = true, at.bits = block_bits(p, tiles[t]);
            }
            float lse, derivative;
            const i64 saved = p.row(example, head, query);
            lse = p.log_sum_exp[saved] * LOG2_E;
            const float score = pair_score(p, at, query, key, weights[i][j], derivative);
            attends = attends && lse > negative_infinity() && allowed(p, at, query, key);
            b.out[(i64(blockIdx.z) * b.queries + row) * b.keys + column] = attends ? weight_of(score - lse) : 0.0f;
        }
}
