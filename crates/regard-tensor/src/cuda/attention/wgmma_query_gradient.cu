// The gradient of the queries in bf16 on Hopper's tensor cores: dQ = scale·Σ dS·K, tiles of queries of a head, which thread blocks take one
// after another.
//
// Weights are recomputed here and once more for keys and values, as in `mma_query_gradient.cu`: every sum has one order, without atomics.
//
// Work. Two warpgroups own 64 queries each, a third copies; tiles of 64 or 128 keys go by. In step t, the tensor cores compute the products of tile t + 1 and
// add tile t to the gradient, while the warps turn what is ready into weights and slopes. Shared memory: queries and upstream, twice where they are narrow; keys and
// values of a tile in three stages, since they are used in two steps; room through which the gradient leaves.
//
// Needs `saved_rows` (delta.cu). Grid: as many thread blocks as there are multiprocessors, or fewer.
#include "mma_slopes.cuh"
#include "wgmma.cuh"

constexpr bool NARROW = width <= 64 && value_width <= 64;
constexpr int GROUPS = 2, KEY_TILE = NARROW && few_registers ? 128 : 64, STAGES = 3, SLOTS = NARROW ? 2 : 1;
/// Registers of a thread that copies.
constexpr int FEW = 40;
constexpr int BLOCK_THREADS = (GROUPS + 1) * GROUP, QUERY_TILE = GROUPS * GROUP_ROWS;
typedef Panels<QUERY_TILE, width> Queries;
typedef Panels<QUERY_TILE, value_width> Upstream;
typedef Panels<KEY_TILE, width> Keys;
typedef Panels<KEY_TILE, value_width> Values;
typedef Ring<STAGES, GROUPS * 4> Tile;
typedef Slots<SLOTS, GROUPS * 4> QuerySlots;

constexpr int SLOT_BYTES = Queries::BYTES + Upstream::BYTES, STAGE_BYTES = Keys::BYTES + Values::BYTES;
constexpr int GRADIENT_AT = SLOTS * SLOT_BYTES, STAGES_AT = GRADIENT_AT + Queries::BYTES, BARRIERS_AT = STAGES_AT + STAGES * STAGE_BYTES;

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_query_gradient_launch[3] = {BLOCK_THREADS, BARRIERS_AT + QuerySlots::BYTES + Tile::BYTES, QUERY_TILE};

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
attention_query_gradient(const __grid_constant__ Problem p, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const u32 base = shared_address(shared_memory);
    const QuerySlots slots = {base + BARRIERS_AT};
    const Tile ring = {slots.address + QuerySlots::BYTES};
    const auto queries_of = [&](int n) { return Queries{base + n % SLOTS * SLOT_BYTES}; };
    const auto upstream_of = [&](int n) { return Upstream{base + n % SLOTS * SLOT_BYTES + Queries::BYTES}; };
    const auto keys_of = [&](int t) { return Keys{base + STAGES_AT + t % STAGES * STAGE_BYTES}; };
    const auto values_of = [&](int t) { return Values{base + STAGES_AT + t % STAGES * STAGE_BYTES + Keys::BYTES}; };
    if (threadIdx.x == 0) {
        slots.ring().init();
        ring.init();
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
            slots.claim(n, work, SLOT_BYTES);
            if (work.start == Work::NONE) break;
            const int kv_head = p.kv_head(work.head), tiles = key_tiles(p, work.example, work.head, work.start, QUERY_TILE, KEY_TILE).count;
            copy_panels(queries_of(n), maps.query, work.start, work.head, work.example, slots.full(n));
            copy_panels(upstream_of(n), maps.upstream, work.start, work.head, work.example, slots.full(n));
            for (int t = 0; t < tiles; t++, first++) {
                ring.claim(first, STAGE_BYTES);
                copy_panels(keys_of(first), maps.key, t * KEY_TILE, kv_head, work.example, ring.full(first));
                copy_panels(values_of(first), maps.value, t * KEY_TILE, kv_head, work.example, ring.full(first));
            }
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
            const QueryRows<1> rows(p.saved_row(example, head, start_query + row), p.queries - start_query - row);
            Sums<1, Keys::COLUMNS> gradient;
            gradient.clear();
            Sums<1, KEY_TILE> weights, slopes;
            Packed<KEY_TILE> packed;
            const auto start_pairs = [&](int t) {
                start_transposed(weights, queries_of(n), group_row, keys_of(first + t));
                products_commit();
                start_transposed(slopes, upstream_of(n), group_row, values_of(first + t));
                products_commit();
            };
            const auto finish_weights = [&](int t) {
                settled(weights);
                const TileAt at = {example, head, start_query + row, t * KEY_TILE, nullptr};
                Derivatives<1, KEY_TILE> unused;
                finish_scores<false>(p, at, weights, unused);
                to_weights<false>(p, at, weights, rows);
            };
            const auto finish_slopes = [&] {
                settled(slopes);
                to_slopes(p, slopes, weights, rows);
            };
            if (own > 0) {
                ring.await(first);
                products_begin();
                start_pairs(0);
                products_wait<1>();
                finish_weights(0);
                products_wait<0>();
                finish_slopes();
                packed.template set<false>(slopes);
            }
            for (int t = 0; t + 1 < own; t++) {
                ring.await(first + t + 1);
                products_begin();
                start_pairs(t + 1);
                start(gradient, packed, keys_of(first + t));
                products_commit();
                products_wait<2>();
                finish_weights(t + 1);
                products_wait<1>();
                finish_slopes();
                products_wait<0>();
                settled(gradient);
                ring.release(first + t);
                packed.template set<false>(slopes);
            }
            // All products with queries and upstream are done.
            slots.release(n);
            if (own > 0) {
                products_begin();
                start(gradient, packed, keys_of(first + own - 1));
                products_commit();
                products_wait<0>();
                settled(gradient);
                ring.release(first + own - 1);
            }
            // Tiles for the others.
            const int tiles = key_tiles(p, example, head, start_query, QUERY_TILE, KEY_TILE).count;
            for (int t = own; t < tiles; t++) {
                ring.await(first + t);
                ring.release(first + t);
            }
            first += tiles;
            scale_sums(gradient, p.scale);
            Element* to = p.query_gradient.at(example, head, start_query);
            write_rows(gradient, Queries{base + GRADIENT_AT}, row, to, p.query_gradient.row_stride, p.queries - start_query);
        }
    }
}
