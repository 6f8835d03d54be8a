// The gradient of the bias: dS, summed over everything that shares a value. Slopes are recomputed here and stay in registers until their sum is
// complete, so that no workspace grows with queries × keys and every sum has one order.
//
//     attention_bias_gradient      BIAS 1: a thread block for each 64×64 tile of each plane of the bias, over the examples and heads that share
//                                  it. Grid (key tiles, query tiles, planes). Writes `bias_gradient` in the form of the bias.
//                                  BIAS 2: a thread block for each head and diagonal of tiles. All tiles of a diagonal have the same distances, so
//                                  their slopes are added first, and the sum is folded to 127 distances at the end.
//                                  Grid (query tiles + key tiles − 1, heads). Writes (heads, diagonals, 128) to `bias_gradient`.
//     attention_distance_gradient  BIAS 2: adds the two diagonals that share a distance. Grid (distances / 256, heads), 256 threads.
#include "ffma_slopes.cuh"

#if BIAS
/// Adds a tile's slopes to the sum, unless no pair of it may attend.
__device__ inline void add_slopes(const Problem& p, Part& sum, int example, int head, int query_tile, int key_tile) {
    const Tiles tiles = key_tiles(p, example, head, query_tile * SIDE, SIDE, SIDE);
    Block block = {key_tile, -1};
    if (has_pattern) {
        int low = 0, high = tiles.count;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (tiles[middle].index < key_tile) low = middle + 1; else high = middle;
        }
        if (low == tiles.count || tiles[low].index != key_tile) return;
        block = tiles[low];
    } else if (key_tile >= tiles.count) {
        return;
    }
    const TileAt at = {example, head, query_tile * SIDE, key_tile * SIDE, block_bits(p, block)};
    Part weights, slopes, derivatives;
    weights_and_slopes<false>(p, at, weights, slopes, derivatives);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] += slopes[i][j];
}
#endif

#if BIAS == 1
LAUNCH(attention_bias_gradient);
extern "C" __global__ void __launch_bounds__(THREADS) attention_bias_gradient(const __grid_constant__ Problem p) {
    // Planes are numbered as they lie: heads of their own vary fastest.
    const bool own_heads = p.bias_head_stride != 0, own_batch = p.bias_batch_stride != 0;
    const int planes_each = own_heads ? p.heads : 1;
    const int plane_head = blockIdx.z % planes_each, plane_example = blockIdx.z / planes_each;
    Part sum = {};
    for (int example = own_batch ? plane_example : 0; example < (own_batch ? plane_example + 1 : p.batch); example++)
        for (int head = own_heads ? plane_head : 0; head < (own_heads ? plane_head + 1 : p.heads); head++)
            add_slopes(p, sum, example, head, blockIdx.y, blockIdx.x);
    float* plane = p.bias_gradient + i64(blockIdx.z) * p.queries * p.keys;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int query = blockIdx.y * SIDE + part_row(i), key = blockIdx.x * SIDE + part_column(j);
            if (query < p.queries && key < p.keys) plane[i64(query) * p.keys + key] = sum[i][j];
        }
}
#endif

#if BIAS == 2
constexpr int FOLDED = 128;

LAUNCH(attention_bias_gradient);
extern "C" __global__ void __launch_bounds__(THREADS) attention_bias_gradient(const __grid_constant__ Problem p) {
    const int query_tiles = ceil_div(p.queries, SIDE), key_tiles = ceil_div(p.keys, SIDE), head = blockIdx.y;
    const int diagonal = int(blockIdx.x) - (key_tiles - 1);
    Part sum = {};
    for (int example = 0; example < p.batch; example++)
        for (int tile = max(0, diagonal); tile < min(query_tiles, key_tiles + diagonal); tile++)
            add_slopes(p, sum, example, head, tile, tile - diagonal);
    const Tile kept = shared_tile(2);
    store(kept, sum);
    __syncthreads();
    if (threadIdx.x >= FOLDED) return;
    // Entry r holds query − key = r − 63 within the tile.
    const int distance = int(threadIdx.x) - (SIDE - 1);
    float total = 0.0f;
    for (int query = max(0, distance); query < min(SIDE, SIDE + distance); query++) total += kept[query][query - distance];
    p.bias_gradient[(i64(head) * gridDim.x + blockIdx.x) * FOLDED + threadIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(256) attention_distance_gradient(const __grid_constant__ Problem p, float* total) {
    const int span = p.queries + p.keys - 1, i = blockIdx.x * 256 + threadIdx.x, head = blockIdx.y;
    if (i >= span) return;
    const int key_tiles = ceil_div(p.keys, SIDE), diagonals = ceil_div(p.queries, SIDE) + key_tiles - 1;
    // Counted from the first distance of the first diagonal, −64·(key tiles − 1) − 63.
    const int shifted = i - (p.keys - 1) + key_tiles * SIDE - 1, later = shifted / SIDE, rest = shifted % SIDE;
    const float* folded = p.bias_gradient + i64(head) * diagonals * FOLDED;
    float sum = 0.0f;
    if (later > 0) sum += folded[(later - 1) * FOLDED + rest + SIDE];
    if (later < diagonals) sum += folded[later * FOLDED + rest];
    total[i64(head) * span + i] = sum;
}
#endif
