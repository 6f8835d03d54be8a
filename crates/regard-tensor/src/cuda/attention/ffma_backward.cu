// The backward pass in f32. Weights are recomputed twice, once by each kernel, so that every sum belongs to one thread block and has one
// order: results have the same bits in every run.
//
//     attention_query_gradient       a block for each tile of queries:  dQ = scale·Σ dS·K
//     attention_key_value_gradient   a block for each tile of keys:     dV = Σ Pᵀ·dO,  dK = scale·Σ dSᵀ·Q
//
// Both read `delta` (delta.cu). Grids: (query tiles, heads, batch) and (key tiles, key-value heads, batch).
#include "ffma_slopes.cuh"

/// dS becomes the gradient of Q·Kᵀ.
__device__ inline void scale_slopes(const Problem& p, Part& slopes, const Part& derivatives) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) slopes[i][j] *= p.scale * derivatives[i][j];
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_query_gradient(const __grid_constant__ Problem p) {
    const int start = (gridDim.x - 1 - blockIdx.x) * SIDE, head = blockIdx.y, example = blockIdx.z, kv_head = p.kv_head(head);
    const Tile keys = shared_tile(1), kept = shared_tile(2);
    Part gradient[CHUNKS] = {};
    const Tiles tiles = key_tiles(p, example, head, start, SIDE, SIDE);
    for (int t = 0; t < tiles.count; t++) {
        const Block block = tiles[t];
        const TileAt at = {example, head, start, block.index * SIDE, block_bits(p, block)};
        Part weights, slopes, derivatives;
        weights_and_slopes<false>(p, at, weights, slopes, derivatives);
        scale_slopes(p, slopes, derivatives);
        store(kept, slopes);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            load(keys, p.key, example, kv_head, at.key_start, p.keys, chunk, width);
            __syncthreads();
            multiply(gradient[chunk], kept, keys);
            __syncthreads();
        }
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        write(p.query_gradient, example, head, start, p.queries, chunk, width, gradient[chunk]);
}

/// sum += tile·rows, where the tile lies in shared memory and rows of a head are read chunk by chunk.
template <int chunks>
__device__ inline void accumulate(Part (&sum)[chunks], const Part& tile, int example, Rows rows, int features) {
    const Tile kept = shared_tile(2), loaded = shared_tile(1);
    store(kept, tile);
#pragma unroll
    for (int chunk = 0; chunk < chunks; chunk++) {
        load(loaded, rows.heads, example, rows.head, rows.start, rows.count, chunk, features);
        __syncthreads();
        multiply(sum[chunk], kept, loaded);
        __syncthreads();
    }
}

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
