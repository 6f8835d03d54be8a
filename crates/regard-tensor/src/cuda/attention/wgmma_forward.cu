// The forward pass in bf16 on Hopper's tensor cores: tiles of queries of a head, which thread blocks take one after another.
//
// Work. Two or three warpgroups own 64 queries each, another one copies. While the tensor cores multiply the weights of one tile of keys with its values and the queries
// with the next tile of keys, the warps turn the scores that are ready into weights (FlashAttention 3's overlap within a warpgroup; Shah et al., 2024).
//
// Shared memory: queries, keys and values twice, and room through which the output leaves. Grid: as many thread blocks as there are multiprocessors, or fewer.
#include "online.cuh"
#include "wgmma.cuh"

constexpr bool NARROW = width <= 64 && value_width <= 64;
constexpr int GROUPS = NARROW && few_registers ? 3 : 2, KEY_TILE = few_registers ? 128 : 64, STAGES = 2, SLOTS = 2;
/// Registers of a thread that copies.
constexpr int FEW = GROUPS == 3 ? 32 : 40;
constexpr int BLOCK_THREADS = (GROUPS + 1) * GROUP, QUERY_TILE = GROUPS * GROUP_ROWS;
typedef Panels<QUERY_TILE, width> Queries;
typedef Panels<QUERY_TILE, value_width> Outputs;
typedef Panels<KEY_TILE, width> Keys;
typedef Panels<KEY_TILE, value_width> Values;
typedef Ring<STAGES, GROUPS * 4> Tile;
typedef Slots<SLOTS, GROUPS * 4> QuerySlots;

constexpr int OUTPUT_AT = SLOTS * Queries::BYTES, KEYS_AT = OUTPUT_AT + Outputs::BYTES, VALUES_AT = KEYS_AT + STAGES * Keys::BYTES;
constexpr int BARRIERS_AT = VALUES_AT + STAGES * Values::BYTES;

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_forward_launch[3] = {BLOCK_THREADS, BARRIERS_AT + QuerySlots::BYTES + 2 * Tile::BYTES, QUERY_TILE};

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
attention_forward(const __grid_constant__ Problem p, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const u32 base = shared_address(shared_memory);
    const QuerySlots slots = {base + BARRIERS_AT};
    const Tile key_ring = {slots.address + QuerySlots::BYTES}, value_ring = {key_ring.address + Tile::BYTES};
    const auto queries_of = [&](int n) { return Queries{base + n % SLOTS * Queries::BYTES}; };
    const auto keys_of = [&](int t) { return Keys{base + KEYS_AT + t % STAGES * Keys::BYTES}; };
    const auto values_of = [&](int t) { return Values{base + VALUES_AT + t % STAGES * Values::BYTES}; };
    if (threadIdx.x == 0) {
        slots.ring().init();
        key_ring.init();
        value_ring.init();
    }
    barriers_ready();

    const int group = threadIdx.x / GROUP;
    // Tiles of keys are counted through all work of the thread block.
    int first = 0;
    if (group == GROUPS) {
        give_registers<FEW>();
        if (threadIdx.x != GROUPS * GROUP) return;
        // The last tiles of causal attention have the most keys: they go first.
        Schedule<true> schedule;
        for (int n = 0;; n++, schedule.advance()) {
            const Work work = schedule.work(p.queries, QUERY_TILE, p.heads, p.batch);
            slots.claim(n, work, Queries::BYTES);
            if (work.start == Work::NONE) break;
            const int kv_head = p.kv_head(work.head), tiles = key_tiles(p, work.example, work.head, work.start, QUERY_TILE, KEY_TILE).count;
            const auto copy_keys = [&](int t) {
                key_ring.claim(first + t, Keys::BYTES);
                copy_panels(keys_of(first + t), maps.key, t * KEY_TILE, kv_head, work.example, key_ring.full(first + t));
            };
            copy_panels(queries_of(n), maps.query, work.start, work.head, work.example, slots.full(n));
            if (tiles > 0) copy_keys(0);
            for (int t = 0; t < tiles; t++) {
                if (t + 1 < tiles) copy_keys(t + 1);
                value_ring.claim(first + t, Values::BYTES);
                copy_panels(values_of(first + t), maps.value, t * KEY_TILE, kv_head, work.example, value_ring.full(first + t));
            }
            first += tiles;
        }
        schedule.leave();
    } else {
        take_registers<many_registers(GROUPS, FEW)>();
        const int group_row = group * GROUP_ROWS, row = threadIdx.x / WARP * 16;
        for (int n = 0;; n++) {
            const Work work = slots.await(n);
            if (work.start == Work::NONE) break;
            const int start_query = work.start, head = work.head, example = work.example;
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
                key_ring.release(first + t);
                const TileAt at = {example, head, start_query + row, t * KEY_TILE, nullptr};
                Derivatives<1, KEY_TILE> unused;
                finish_scores<false>(p, at, scores, unused);
                const bool raised = online.weigh_apart(scores, rescale);
                if (has_dropout) mark_dropped<false>(p, at, scores);
                return raised;
            };
            if (own > 0) {
                key_ring.await(first);
                products_begin();
                start_transposed(scores, queries_of(n), group_row, keys_of(first));
                products_commit();
                products_wait<0>();
                weigh(0);
                weights.template set<true>(scores);
            }
            for (int t = 0; t + 1 < own; t++) {
                key_ring.await(first + t + 1);
                products_begin();
                start_transposed(scores, queries_of(n), group_row, keys_of(first + t + 1));
                products_commit();
                value_ring.await(first + t);
                products_begin();
                start(output, weights, values_of(first + t));
                products_commit();
                products_wait<1>();
                const bool raised = weigh(t + 1);
                products_wait<0>();
                settled(output);
                value_ring.release(first + t);
                if (raised) online.scale_output(rescale, output);
                weights.template set<true>(scores);
            }
            if (own > 0) {
                value_ring.await(first + own - 1);
                products_begin();
                start(output, weights, values_of(first + own - 1));
                products_commit();
                products_wait<0>();
                settled(output);
                value_ring.release(first + own - 1);
            }
            // All products with the queries are done.
            slots.release(n);
            // Tiles for the others.
            const int tiles = key_tiles(p, example, head, start_query, QUERY_TILE, KEY_TILE).count;
            for (int t = own; t < tiles; t++) {
                key_ring.await(first + t);
                key_ring.release(first + t);
                value_ring.await(first + t);
                value_ring.release(first + t);
            }
            first += tiles;
            online.finish(p, example, head, start_query + row, output);
            Element* to = p.output.at(example, head, start_query);
            write_rows(output, Outputs{base + OUTPUT_AT}, row, to, p.output.row_stride, p.queries - start_query);
        }
    }
}
