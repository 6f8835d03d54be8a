// The forward pass in bf16 on the tensor cores: a thread block for each tile of queries of a head.
//
// Work. Four warps own 32 rows of queries each (16 with a pattern, whose blocks have 64 queries, and at widths above 128, where the output needs the
// registers). With 32 rows, a warp uses each piece of keys and values it reads from shared memory twice: with 16 the reads, not the products,
// would set the pace. Tiles of 64 keys go by; scores, softmax and weights stay in a warp's registers.
//
// Shared memory. Queries once, keys and values twice: the next tile is copied (cp.async) while this one is used, with one barrier a tile.
// 128 queries and width 128: 32 + 2·(16 + 16) = 96 KiB, two thread blocks a multiprocessor on sm_90.
//
// Registers at width 128, 32 rows: output 128, scores 64, operands 16, maxima and sums 8.
//
// Grid: (query tiles, heads, batch).
#include "online.cuh"

constexpr int ROW_TILES = has_pattern || width > 128 || value_width > 128 ? 1 : 2;
constexpr int QUERY_TILE = WARPS * ROW_TILES * 16, STAGES = 2, KEY_TILE = ROW_TILES == 2 && !few_registers ? 32 : 64;
typedef Matrix<width> Wide;
typedef Matrix<value_width> Valued;
typedef Sums<ROW_TILES, KEY_TILE> Scores;
typedef Sums<ROW_TILES, Valued::COLUMNS> Output;

// Queries, where the output leaves through later; then keys and values of each stage.
constexpr int QUERY_BYTES = QUERY_TILE * (Wide::ROW_BYTES > Valued::ROW_BYTES ? Wide::ROW_BYTES : Valued::ROW_BYTES);
constexpr int KEY_BYTES = KEY_TILE * Wide::ROW_BYTES, VALUE_BYTES = KEY_TILE * Valued::ROW_BYTES;
constexpr int STAGE_BYTES = KEY_BYTES + VALUE_BYTES;

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_forward_launch[3] = {THREADS, QUERY_BYTES + STAGES * STAGE_BYTES, QUERY_TILE};

extern "C" __global__ void __launch_bounds__(THREADS) attention_forward(const __grid_constant__ Problem p) {
    extern __shared__ float4 shared_memory[];
    const u32 base = shared_address(shared_memory), stages = base + QUERY_BYTES;
    // The last tiles of causal attention have the most keys: they go first.
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
    copy_rows<QUERY_TILE>(Wide{base}, p.query.at(example, head, start), p.query.row_stride, p.queries - start);
    if (tiles.count > 0) copy_tile(0);

    Online<ROW_TILES> online(p);
    Output output;
    output.clear();
    for (int t = 0; t < tiles.count; t++) {
        copy_wait<0>();
        __syncthreads();
        if (t + 1 < tiles.count) copy_tile(t + 1);
        const Block block = tiles[t];
        const TileAt at = {example, head, start + row, block.index * KEY_TILE, block_bits(p, block)};
        // On the diagonal, some warps have no query that may attend to this tile.
        if (causal && at.key_start > at.query_start + ROW_TILES * 16 - 1 + p.offset()) continue;
        const u32 stage = stages + t % STAGES * STAGE_BYTES;
        Scores scores;
        scores.clear();
        multiply_transposed(scores, Reader<width>::across({base}), row, Reader<width>::along({stage}), 0);
        Derivatives<ROW_TILES, KEY_TILE> unused;
        finish_scores<false>(p, at, scores, unused);
        online.weigh(scores, output);
        if (has_dropout) mark_dropped<false>(p, at, scores);
        multiply<true>(output, scores, Reader<value_width>::across({stage + KEY_BYTES}), 0);
    }
    online.finish(p, example, head, start + row, output);
    copy_wait_all();
    __syncthreads();
    write_rows(output, Valued{base}, row, p.output.at(example, head, start), p.output.row_stride, p.queries - start);
}
