// The gradients of keys and values in bf16: dV = Σ Pᵀ·dO and dK = scale·Σ dSᵀ·Q, over the queries of all heads of a group. A thread block for each tile
// of keys of a key-value head.
//
// Work. Tiles are transposed: rows are keys, columns queries, so that weights and slopes are left operands of the products that sum over queries, without
// leaving the registers. Four warps own 32 keys each up to width 64, else 16 (also with a pattern, whose blocks have 64 keys). Tiles of queries go
// by in steps of 16 to 64 columns, as registers allow.
//
// Registers at width 128, 16 rows: gradients 64 + 64, weights and slopes 32 + 32. Above that both gradients do not fit: queries go by twice, first
// for the values, then for the keys.
//
// Shared memory: keys and values once; queries, upstream and their saved rows twice (this tile and the next). At width 128: 32 + 2·32.5 = 97 KiB,
// two thread blocks a multiprocessor on sm_90.
//
// Needs `saved_rows` (delta.cu). Grid: (key tiles, key-value heads, batch).
#include "mma_slopes.cuh"

constexpr bool WIDE = width > 128 || value_width > 128;
constexpr int ROW_TILES = has_pattern || !few_registers || width > 64 || value_width > 64 ? 1 : 2;
constexpr int KEY_TILE = WARPS * ROW_TILES * 16, QUERY_TILE = WIDE ? 32 : 64, STAGES = 2;
constexpr int STEP = has_soft_cap ? 16 : ROW_TILES == 2 || WIDE || has_pattern || !few_registers ? 32 : 64;
typedef Matrix<width> Wide;
typedef Matrix<value_width> Valued;
typedef Sums<ROW_TILES, STEP> Scores;
typedef Sums<ROW_TILES, Wide::COLUMNS> KeyGradient;
typedef Sums<ROW_TILES, Valued::COLUMNS> ValueGradient;

constexpr int KEY_BYTES = KEY_TILE * Wide::ROW_BYTES, VALUE_BYTES = KEY_TILE * Valued::ROW_BYTES;
constexpr int QUERY_BYTES = QUERY_TILE * Wide::ROW_BYTES, UPSTREAM_BYTES = QUERY_TILE * Valued::ROW_BYTES;
constexpr int SAVED_BYTES = QUERY_TILE * sizeof(SavedRow), STAGE_BYTES = QUERY_BYTES + UPSTREAM_BYTES + SAVED_BYTES;

/// For the host: threads, bytes of shared memory and keys of a thread block.
extern "C" __device__ int attention_key_value_gradient_launch[3] = {THREADS, KEY_BYTES + VALUE_BYTES + STAGES * STAGE_BYTES, KEY_TILE};

/// The tiles of queries that may attend to a tile of keys, head after head of the group.
struct Cursor {
    int head, tile;
    Tiles tiles;

    __device__ Cursor(const Problem& p, int example, int kv_head, int key_start)
        : head(kv_head * (p.heads / p.kv_heads)), tile(0), tiles(query_tiles(p, example, head, key_start, QUERY_TILE)) {
        skip(p, example, kv_head, key_start);
    }
    __device__ void advance(const Problem& p, int example, int kv_head, int key_start) {
        tile++;
        skip(p, example, kv_head, key_start);
    }
    __device__ bool done(const Problem& p, int kv_head) const { return head == (kv_head + 1) * (p.heads / p.kv_heads); }

    /// Moves on to the next head that has a tile.
    __device__ void skip(const Problem& p, int example, int kv_head, int key_start) {
        while (!done(p, kv_head) && tile >= tiles.count) {
            tile = 0;
            head++;
            if (has_pattern && !done(p, kv_head)) tiles = query_tiles(p, example, head, key_start, QUERY_TILE);
        }
    }
};

/// A thread block's place.
struct KeyTile {
    int example, kv_head, start, row;
    u32 keys, values, stages;
};

/// Copies a tile of queries, upstream and saved rows.
__device__ inline void copy_tile(const Problem& p, const KeyTile& k, const Cursor& cursor, u32 stage) {
    const int first = cursor.tiles[cursor.tile].index * QUERY_TILE;
    copy_rows<QUERY_TILE>(Wide{stage}, p.query.at(k.example, cursor.head, first), p.query.row_stride, p.queries - first);
    copy_rows<QUERY_TILE>(Valued{stage + QUERY_BYTES}, p.upstream.at(k.example, cursor.head, first), p.upstream.row_stride, p.queries - first);
    const SavedRow* saved = p.saved_row(k.example, cursor.head, first);
    if (threadIdx.x < SAVED_BYTES / 16) copy_async(stage + QUERY_BYTES + UPSTREAM_BYTES + threadIdx.x * 16, saved + threadIdx.x * 2, true);
    copy_commit();
}

/// One pass over the queries, adding to the gradients it is for.
template <bool for_keys, bool for_values>
__device__ inline void pass(const Problem& p, const KeyTile& k, KeyGradient& key_gradient, ValueGradient& value_gradient) {
    Cursor next(p, k.example, k.kv_head, k.start);
    if (!next.done(p, k.kv_head)) copy_tile(p, k, next, k.stages);
    for (int t = 0; !next.done(p, k.kv_head); t++) {
        const int head = next.head;
        const Block block = next.tiles[next.tile];
        const u32 stage = k.stages + t % STAGES * STAGE_BYTES;
        copy_wait<0>();
        __syncthreads();
        next.advance(p, k.example, k.kv_head, k.start);
        if (!next.done(p, k.kv_head)) copy_tile(p, k, next, k.stages + (t + 1) % STAGES * STAGE_BYTES);
#pragma unroll 1
        for (int column = 0; column < QUERY_TILE; column += STEP) {
            const TileAt at = {k.example, head, block.index * QUERY_TILE + column, k.start + k.row, block_bits(p, block)};
            // On the diagonal, some warps have no key that these queries may attend to.
            if (causal && at.key_start > at.query_start + STEP - 1 + p.offset()) continue;
            const QueryColumns rows = {stage + QUERY_BYTES + UPSTREAM_BYTES + column * u32(sizeof(SavedRow))};
            Scores weights;
            Derivatives<ROW_TILES, STEP> derivatives;
            weights.clear();
            multiply_transposed(weights, Reader<width>::across({k.keys}), k.row, Reader<width>::along({stage}), column);
            finish_scores<true>(p, at, weights, derivatives);
            to_weights<true>(p, at, weights, rows);
            if constexpr (for_values) multiply<true>(value_gradient, weights, Reader<value_width>::across({stage + QUERY_BYTES}), column);
            if constexpr (for_keys) {
                apply_derivatives(weights, derivatives);
                Scores slopes;
                slopes.clear();
                multiply_transposed(slopes, Reader<value_width>::across({k.values}), k.row, Reader<value_width>::along({stage + QUERY_BYTES}), column);
                to_slopes(p, slopes, weights, rows);
                multiply<false>(key_gradient, slopes, Reader<width>::across({stage}), column);
            }
        }
    }
    // Before shared memory is used for something else.
    copy_wait_all();
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_key_value_gradient(const __grid_constant__ Problem p) {
    extern __shared__ float4 shared_memory[];
    const u32 keys = shared_address(shared_memory), values = keys + KEY_BYTES;
    const KeyTile k = {int(blockIdx.z), int(blockIdx.y), int(blockIdx.x) * KEY_TILE, int(threadIdx.x) / WARP * ROW_TILES * 16,
                       keys, values, values + VALUE_BYTES};
    copy_rows<KEY_TILE>(Wide{keys}, p.key.at(k.example, k.kv_head, k.start), p.key.row_stride, p.keys - k.start);
    copy_rows<KEY_TILE>(Valued{values}, p.value.at(k.example, k.kv_head, k.start), p.value.row_stride, p.keys - k.start);
    KeyGradient key_gradient;
    ValueGradient value_gradient;
    value_gradient.clear();
    if constexpr (WIDE) {
        pass<false, true>(p, k, key_gradient, value_gradient);
    } else {
        key_gradient.clear();
        pass<true, true>(p, k, key_gradient, value_gradient);
    }
    if (has_dropout) scale_sums(value_gradient, p.dropout.scale);
    // The stages are free: the values' gradient leaves through them, and a warp's own keys make room for their gradient.
    Element* to = p.value_gradient.at(k.example, k.kv_head, k.start);
    write_rows(value_gradient, Valued{k.stages}, k.row, to, p.value_gradient.row_stride, p.keys - k.start);
    if constexpr (WIDE) {
        __syncthreads();
        key_gradient.clear();
        pass<true, false>(p, k, key_gradient, value_gradient);
    }
    scale_sums(key_gradient, p.scale);
    to = p.key_gradient.at(k.example, k.kv_head, k.start);
    write_rows(key_gradient, Wide{keys}, k.row, to, p.key_gradient.row_stride, p.keys - k.start);
}
