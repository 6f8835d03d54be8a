// The gradients of keys and values in f32: dV = Σ Pᵀ·dO and dK = scale·Σ dSᵀ·Q, over the queries of all heads of a group. A thread block for each tile
// of 64 keys of a key-value head. Needs `saved_rows` (delta.cu). Grid: (key tiles, key-value heads, batch).
#include "ffma_slopes.cuh"

LAUNCH(attention_key_value_gradient);
extern "C" __global__ void __launch_bounds__(THREADS) attention_key_value_gradient(const __grid_constant__ Problem p) {
    const int start = blockIdx.x * SIDE, kv_head = blockIdx.y, example = blockIdx.z, group = p.heads / p.kv_heads;
    Part key_gradient[CHUNKS] = {}, value_gradient[VALUE_CHUNKS] = {};
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++) {
        const Tiles tiles = query_tiles(p, example, head, start, SIDE);
        for (int t = 0; t < tiles.count; t++) {
            const Block block = tiles[t];
            const TileAt at = {example, head, block.index * SIDE, start, block_bits(p, block)};
            Part weights, slopes, derivatives;
            weights_and_slopes<true>(p, at, weights, slopes, derivatives);
            scale_slopes(p, slopes, derivatives);
            accumulate(value_gradient, weights, example, {p.upstream, head, at.query_start, p.queries}, value_width);
            accumulate(key_gradient, slopes, example, {p.query, head, at.query_start, p.queries}, width);
        }
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        write(p.key_gradient, example, kv_head, start, p.keys, chunk, width, key_gradient[chunk]);
#pragma unroll
    for (int chunk = 0; chunk < VALUE_CHUNKS; chunk++)
        write(p.value_gradient, example, kv_head, start, p.keys, chunk, value_width, value_gradient[chunk]);
}
