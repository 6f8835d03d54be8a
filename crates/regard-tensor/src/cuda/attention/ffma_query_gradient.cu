// The gradient of the queries in f32: dQ = scale·Σ dS·K, a thread block for each tile of 64 queries of a head.
//
// Weights are recomputed here and once more for keys and values, so that every sum belongs to one thread block and has one order: results have
// the same bits in every run. Needs `saved_rows` (delta.cu). Grid: (query tiles, heads, batch).
#include "ffma_slopes.cuh"

LAUNCH(attention_query_gradient);
extern "C" __global__ void __launch_bounds__(THREADS) attention_query_gradient(const __grid_constant__ Problem p) {
    const int start = (gridDim.x - 1 - blockIdx.x) * SIDE, head = blockIdx.y, example = blockIdx.z, kv_head = p.kv_head(head);
    Part gradient[CHUNKS] = {};
    const Tiles tiles = key_tiles(p, example, head, start, SIDE, SIDE);
    for (int t = 0; t < tiles.count; t++) {
        const Block block = tiles[t];
        const TileAt at = {example, head, start, block.index * SIDE, block_bits(p, block)};
        Part weights, slopes, derivatives;
        weights_and_slopes<false>(p, at, weights, slopes, derivatives);
        scale_slopes(p, slopes, derivatives);
        accumulate(gradient, slopes, example, {p.key, kv_head, at.key_start, p.keys}, width);
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        write(p.query_gradient, example, head, start, p.queries, chunk, width, gradient[chunk]);
}
