// The forward pass in bf16 on Hopper's tensor cores: a thread block for each tile of queries of a head.
//
// Work. Two or three warpgroups own 64 queries each, another one copies. While the tensor cores multiply the weights of one tile of keys with its values and the queries
// with the next tile of keys, the warps turn the scores that are ready into weights (FlashAttention 3's overlap within a warpgroup; Shah et al., 2024).
//
// Shared memory: queries once, keys and values twice. Grid: (query tiles, heads, batch).
#include "online.cuh"
#include "wgmma.cuh"

constexpr bool NARROW = width <= 64 && value_width <= 64;
constexpr int GROUPS = NARROW && few_registers ? 3 : 2, BLOCKS = 1, KEY_TILE = few_registers ? 128 : 64, STAGES = 2;
constexpr int BLOCK_THREADS = (GROUPS + 1) * GROUP, QUERY_TILE = GROUPS * GROUP_ROWS;
typedef Panels<QUERY_TILE, width> Queries;
typedef Panels<QUERY_TILE, value_width> Outputs;
typedef Panels<KEY_TILE, width> Keys;
typedef Panels<KEY_TILE, value_width> Values;
typedef Ring<STAGES, GROUPS * 4> Tile;

// Queries, where the output leaves through later; keys; values; barriers.
constexpr int QUERY_BYTES = Queries::BYTES > Outputs::BYTES ? Queries::BYTES : Outputs::BYTES;
constexpr int KEYS_AT = QUERY_BYTES, VALUES_AT = KEYS_AT + STAGES * Keys::BYTES, BARRIERS_AT = VALUES_AT + STAGES * Values::BYTES;

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_forward_launch[3] = {BLOCK_THREADS, BARRIERS_AT + 8 + 2 * Tile::BYTES, QUERY_TILE};

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)
attention_forward(const __grid_constant__ Problem p, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const u32 base = shared_address(shared_memory), queries_full = base + BARRIERS_AT;
    const Tile key_ring = {queries_full + 8}, value_ring = {key_ring.address + Tile::BYTES};
    // The last tiles of causal attention have the most keys: they go first.
    const int start_query = (gridDim.x - 1 - blockIdx.x) * QUERY_TILE, head = blockIdx.y, example = blockIdx.z;
    const int tiles = key_tiles(p, example, head, start_query, QUERY_TILE, KEY_TILE).count;
    const Queries queries = {base};
    const auto keys_of = [&](int t) { return Keys{base + KEYS_AT + t % STAGES * Keys::BYTES}; };
    const auto values_of = [&](int t) { return Values{base + VALUES_AT + t % STAGES * Values::BYTES}; };
    if (threadIdx.x == 0) {
        barrier_init(queries_full, 1);
        key_ring.init();
        value_ring.init();
    }
    barriers_ready();

    const int group = threadIdx.x / GROUP;
    if (group == GROUPS) {
        give_registers<FEW_REGISTERS>();
        if (threadIdx.x != GROUPS * GROUP) return;
        const int kv_head = p.kv_head(head);
        const auto copy_keys = [&](int t) {
            key_ring.claim(t, Keys::BYTES);
            copy_panels(keys_of(t), maps.key, t * KEY_TILE, kv_head, example, key_ring.full(t));
        };
        barrier_expect(queries_full, Queries::BYTES);
        copy_panels(queries, maps.query, start_query, head, example, queries_full);
        if (tiles > 0) copy_keys(0);
        for (int t = 0; t < tiles; t++) {
            if (t + 1 < tiles) copy_keys(t + 1);
            value_ring.claim(t, Values::BYTES);
            copy_panels(values_of(t), maps.value, t * KEY_TILE, kv_head, example, value_ring.full(t));
        }
    } else {
        take_registers<many_registers(GROUPS, BLOCKS)>();
        const int group_row = group * GROUP_ROWS, row = threadIdx.x / WARP * 16;
        // On the diagonal of causal attention, some warpgroups need fewer tiles.
        const int own = key_tiles(p, example, head, start_query + group_row, GROUP_ROWS, KEY_TILE).count;
        Online<1> online(p);
        Sums<1, Values::COLUMNS> output;
        output.clear();
        Sums<1, KEY_TILE> scores;
        Packed<KEY_TILE> weights;
        float rescale[1][2];
        // Products of tile t become weights; returns whether what was summed before must be rescaled.
        const auto weigh = [&](int t) {
            settled(scores);
            key_ring.release(t);
            const TileAt at = {example, head, start_query + row, t * KEY_TILE, nullptr};
            Derivatives<1, KEY_TILE> unused;
            finish_scores<false>(p, at, scores, unused);
            const bool raised = online.weigh_apart(scores, rescale);
            if (has_dropout) mark_dropped<false>(p, at, scores);
            return raised;
        };
        barrier_wait(queries_full, 0);
        if (own > 0) {
            key_ring.await(0);
            products_begin();
            start_transposed(scores, queries, group_row, keys_of(0));
            products_commit();
            products_wait<0>();
            weigh(0);
            weights.set<true>(scores);
        }
        for (int t = 0; t + 1 < own; t++) {
            key_ring.await(t + 1);
            products_begin();
            start_transposed(scores, queries, group_row, keys_of(t + 1));
            products_commit();
            value_ring.await(t);
            products_begin();
            start(output, weights, values_of(t));
            products_commit();
            products_wait<1>();
            const bool raised = weigh(t + 1);
            products_wait<0>();
            settled(output);
            value_ring.release(t);
            if (raised) online.scale_output(rescale, output);
            weights.set<true>(scores);
        }
        if (own > 0) {
            value_ring.await(own - 1);
            products_begin();
            start(output, weights, values_of(own - 1));
            products_commit();
            products_wait<0>();
            settled(output);
            value_ring.release(own - 1);
        }
        // Tiles for the others.
        for (int t = own; t < tiles; t++) {
            key_ring.await(t);
            key_ring.release(t);
            value_ring.await(t);
            value_ring.release(t);
        }
        online.finish(p, example, head, start_query + row, output);
        group_sync(group);
        Element* to = p.output.at(example, head, start_query);
        write_rows(output, Outputs{base}, row, to, p.output.row_stride, p.queries - start_query);
    }
}
