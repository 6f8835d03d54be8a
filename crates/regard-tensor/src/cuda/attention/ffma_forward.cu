// The forward pass in f32: a thread block for each tile of 64 queries of a head.
//
// Tiles of 64 keys go by. Scores become weights relative to the maximum so far (online softmax: Milakov & Gimelshein, 2018), and
// the output summed under a smaller maximum is rescaled (Dao et al., FlashAttention, 2022). Shared memory: a tile of queries or values, one
// of keys, one of weights.
//
// Grid: (query tiles, heads, batch).
#include "ffma.cuh"

/// A maximum of −∞ (nothing allowed yet) is replaced by this in differences, which then stay −∞ instead of NaN.
constexpr float LOWEST = -1e30f;

/// A thread's four rows: the running maximum in units of log₂, and its own part of the sum.
struct Online {
    float max[4], sum[4];
};

/// Turns scores into weights, and rescales the output so far.
__device__ inline void weigh(Online& online, Part& scores, Part (&output)[VALUE_CHUNKS]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float most = online.max[i];
#pragma unroll
        for (int j = 0; j < 4; j++) most = fmaxf(most, scores[i][j]);
        most = row_max(most);
        const float shift = fmaxf(most, LOWEST), rescale = exp2f(online.max[i] - shift);
        online.max[i] = most;
        online.sum[i] *= rescale;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            scores[i][j] = exp2f(scores[i][j] - shift);
            online.sum[i] += scores[i][j];
#pragma unroll
            for (int chunk = 0; chunk < VALUE_CHUNKS; chunk++) output[chunk][i][j] *= rescale;
        }
    }
}

/// Lets the sink take its share, writes the log-sum-exp and divides the output by the sum.
__device__ inline void finish(const Problem& p, Online& online, Part (&output)[VALUE_CHUNKS], int example, int head, int start) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float sum = row_sum(online.sum[i]), factor = 1.0f;
        if (has_sink) {
            const float sink = p.sink[head] * LOG2_E, most = fmaxf(fmaxf(online.max[i], sink), LOWEST);
            factor = exp2f(online.max[i] - most);
            sum = sum * factor + exp2f(sink - most);
            online.max[i] = most;
        }
        factor = sum > 0.0f ? factor / sum : 0.0f;
        const int query = start + part_row(i);
        if (threadIdx.x % 16 == 0 && query < p.queries) {
            const float total = (online.max[i] + log2f(sum)) * LN_2;
            p.log_sum_exp[p.row(example, head, query)] = sum > 0.0f ? total : negative_infinity();
        }
#pragma unroll
        for (int chunk = 0; chunk < VALUE_CHUNKS; chunk++)
#pragma unroll
            for (int j = 0; j < 4; j++) output[chunk][i][j] *= factor;
    }
}

LAUNCH(attention_forward);
extern "C" __global__ void __launch_bounds__(THREADS) attention_forward(const __grid_constant__ Problem p) {
    // The last tiles of causal attention have the most keys: they go first.
    const int start = (gridDim.x - 1 - blockIdx.x) * SIDE, head = blockIdx.y, example = blockIdx.z, kv_head = p.kv_head(head);
    Online online;
    Part output[VALUE_CHUNKS] = {};
    for (int i = 0; i < 4; i++) online.max[i] = negative_infinity(), online.sum[i] = 0.0f;
    const Tiles tiles = key_tiles(p, example, head, start, SIDE, SIDE);
    for (int t = 0; t < tiles.count; t++) {
        const Block block = tiles[t];
        const TileAt at = {example, head, start, block.index * SIDE, block_bits(p, block)};
        Part scores;
        product(scores, example, {p.query, head, start, p.queries}, {p.key, kv_head, at.key_start, p.keys}, width);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int query = start + part_row(i), key = at.key_start + part_column(j);
                float derivative;
                const float score = pair_score(p, at, query, key, scores[i][j], derivative);
                scores[i][j] = allowed(p, at, query, key) ? score : negative_infinity();
            }
        weigh(online, scores, output);
        if (has_dropout) {
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    scores[i][j] *= dropout_factor(p, at, start + part_row(i), at.key_start + part_column(j));
        }
        accumulate(output, scores, example, {p.value, kv_head, at.key_start, p.keys}, value_width);
    }
    finish(p, online, output, example, head, start);
#pragma unroll
    for (int chunk = 0; chunk < VALUE_CHUNKS; chunk++)
        write(p.output, example, head, start, p.queries, chunk, value_width, output[chunk]);
}
