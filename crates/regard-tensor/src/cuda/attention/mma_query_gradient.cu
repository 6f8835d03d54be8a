// The gradient of the queries in bf16: dQ = scale·Σ dS·K, a thread block for each tile of queries of a head.
//
// Weights are recomputed here and once more for keys and values (seven products instead of five), so that every sum belongs to one warp and has one
// order: results have the same bits in every run, without atomics.
//
// Work. As in the forward pass, four warps own 32 rows of queries each, or 16 with a pattern or at widths above 128. Tiles of 32 keys: scores and slopes
// are both held, and at width 128 the gradient takes half of the registers. Shared memory: queries and upstream once, keys and values
// twice (this tile and the next); at width 128, 64 + 2·16 = 96 KiB, two thread blocks a multiprocessor on sm_90.
//
// Needs `saved_rows` (delta.cu). Grid: (query tiles, heads, batch).
#include "mma_slopes.cuh"

constexpr int ROW_TILES = has_pattern || width > 128 || value_width > 128 ? 1 : 2;
constexpr int QUERY_TILE = WARPS * ROW_TILES * 16, STAGES = 2;
// Beside a cap, or on sm_80 a mask of keys, scores and slopes of 32 keys would spill.
constexpr bool FEWER_KEYS = has_soft_cap || (has_key_mask && __CUDA_ARCH__ < 900);
constexpr int KEY_TILE = ROW_TILES == 2 && width > 64 && FEWER_KEYS ? 16 : 32;
typedef Matrix<width> Wide;
typedef Matrix<value_width> Valued;
typedef Sums<ROW_TILES, KEY_TILE> Scores;
typedef Sums<ROW_TILES, Wide::COLUMNS> Gradient;

constexpr int QUERY_BYTES = QUERY_TILE * Wide::ROW_BYTES, UPSTREAM_BYTES = QUERY_TILE * Valued::ROW_BYTES;
constexpr int KEY_BYTES = KEY_TILE * Wide::ROW_BYTES, STAGE_BYTES = KEY_BYTES + KEY_TILE * Valued::ROW_BYTES;

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_query_gradient_launch[3] = {THREADS, QUERY_BYTES + UPSTREAM_BYTES + STAGES * STAGE_BYTES, QUERY_TILE};

extern "C" __global__ void __launch_bounds__(THREADS) attention_query_gradient(const __grid_constant__ Problem p) {
    extern __shared__ float4 shared_memory[];
    const u32 queries = shared_address(shared_memory), upstream = queries + QUERY_BYTES, stages = upstream + UPSTREAM_BYTES;
    const int start = (gridDim.x - 1 - blockIdx.x) * QUERY_TILE, head = blockIdx.y, example = blockIdx.z, kv_head = p.kv_head(head);
    const int row = threadIdx.x / WARP * ROW_TILES * 16;
    const Tiles tiles = key_tiles(p, example, head, start, QUERY_TILE, KEY_TILE);
    const auto copy_tile = [&](int t) {
        const int first = tiles[t].index * KEY_TILE;
        const u32 stage = stages + t % STAGES * STAGE_BYTES;
        copy_rows<KEY_TILE>(Wide{stage}, p.key.at(example, kv_head, first), p.key.row_stride, p.keys - first);
        copy_rows<KEY_TILE>(Valued{stage + KEY_BYTES}, p.value.at(example, kv_head, first), p.value.row_stride, p.keys - first);
        copy_commit();
    };
    copy_rows<QUERY_TILE>(Wide{queries}, p.query.at(example, head, start), p.query.row_stride, p.queries - start);
    copy_rows<QUERY_TILE>(Valued{upstream}, p.upstream.at(example, head, start), p.upstream.row_stride, p.queries - start);
    if (tiles.count > 0) copy_tile(0);

    const QueryRows<ROW_TILES> rows(p.saved_row(example, head, start + row), p.queries - start - row);
    Gradient gradient;
    gradient.clear();
    for (int t = 0; t < tiles.count; t++) {
        copy_wait<0>();
        __syncthreads();
        if (t + 1 < tiles.count) copy_tile(t + 1);
        const Block block = tiles[t];
        const TileAt at = {example, head, start + row, block.index * KEY_TILE, block_bits(p, block)};
        // On the diagonal, some warps have no query that may attend to this tile.
        if (causal && at.key_start > at.query_start + ROW_TILES * 16 - 1 + p.offset()) continue;
        const u32 stage = stages + t % STAGES * STAGE_BYTES;
        Scores weights, slopes;
        Derivatives<ROW_TILES, KEY_TILE> derivatives;
        weights.clear();
        multiply_transposed(weights, Reader<width>::across({queries}), row, Reader<width>::along({stage}), 0);
        finish_scores<false>(p, at, weights, derivatives);
        to_weights<false>(p, at, weights, rows);
        apply_derivatives(weights, derivatives);
        slopes.clear();
        multiply_transposed(slopes, Reader<value_width>::across({upstream}), row, Reader<value_width>::along({stage + KEY_BYTES}), 0);
        to_slopes(p, slopes, weights, rows);
        multiply<false>(gradient, slopes, Reader<width>::across({stage}), 0);
    }
    scale_sums(gradient, p.scale);
    // A warp's queries are read by itself alone, and make room for its gradient.
    copy_wait_all();
    __syncthreads();
    write_rows(gradient, Wide{queries}, row, p.query_gradient.at(example, head, start), p.query_gradient.row_stride, p.queries - start);
}
