// The gradients of keys and values in bf16 on Hopper's tensor cores: dV = Σ Pᵀ·dO and dK = scale·Σ dSᵀ·Q, over the queries of all heads of a group. Tiles of
// keys of a key-value head, which thread blocks take one after another.
//
// Work. Tiles are transposed, as in `mma_key_value_gradient.cu`: rows are keys, columns queries. Two warpgroups own 64 keys each, a third copies; tiles of 32 or 64
// queries go by. In step t, the tensor cores compute the products of tile t + 1 and add tile t to the gradients, while the warps turn what is ready into weights
// and slopes. Shared memory: keys and values twice; queries, upstream and saved rows of a tile in three stages, since they are used in two steps; room through which
// the gradients leave.
//
// Needs `saved_rows` (delta.cu). Grid: as many thread blocks as there are multiprocessors, or fewer.
#include "mma_slopes.cuh"
#include "wgmma.cuh"

constexpr bool NARROW = width <= 64 && value_width <= 64;
constexpr int GROUPS = 2, QUERY_TILE = NARROW ? 64 : 32, STAGES = 3, SLOTS = 2;
/// Registers of a thread that copies.
constexpr int FEW = has_dropout ? 40 : 24;
constexpr int BLOCK_THREADS = (GROUPS + 1) * GROUP, KEY_TILE = GROUPS * GROUP_ROWS;
typedef Panels<KEY_TILE, width> Keys;
typedef Panels<KEY_TILE, value_width> Values;
typedef Panels<QUERY_TILE, width> Queries;
typedef Panels<QUERY_TILE, value_width> Upstream;
typedef Ring<STAGES, GROUPS * 4> Tile;
typedef Slots<SLOTS, GROUPS * 4> KeySlots;

// Saved rows come after the stages, so that panels begin at multiples of 1024 bytes.
constexpr int SLOT_BYTES = Keys::BYTES + Values::BYTES, STAGE_BYTES = Queries::BYTES + Upstream::BYTES, SAVED_BYTES = QUERY_TILE * sizeof(SavedRow);
constexpr int GRADIENT_AT = SLOTS * SLOT_BYTES, GRADIENT_BYTES = Keys::BYTES > Values::BYTES ? Keys::BYTES : Values::BYTES;
constexpr int STAGES_AT = GRADIENT_AT + GRADIENT_BYTES, SAVED_AT = STAGES_AT + STAGES * STAGE_BYTES;
constexpr int BARRIERS_AT = SAVED_AT + STAGES * SAVED_BYTES;

/// For the host: threads, bytes of shared memory and keys of a thread block.
extern "C" __device__ int attention_key_value_gradient_launch[3] = {BLOCK_THREADS, BARRIERS_AT + KeySlots::BYTES + Tile::BYTES, KEY_TILE};

/// The tiles of queries that may attend to a tile of keys, head after head of the group that shares them.
struct Cursor {
    int head, tile, end, first, count;

    __device__ Cursor(const Problem& p, int kv_head, int key_start) {
        const Tiles tiles = query_tiles(p, 0, 0, key_start, QUERY_TILE);
        const int group = p.heads / p.kv_heads;
        head = kv_head * group, tile = first = tiles.first, count = tiles.count, end = count > 0 ? head + group : head;
    }
    __device__ bool done() const { return head == end; }
    __device__ void advance() {
        if (++tile == first + count) tile = first, head++;
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
attention_key_value_gradient(const __grid_constant__ Problem p, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const u32 base = shared_address(shared_memory);
    const KeySlots slots = {base + BARRIERS_AT};
    const Tile ring = {slots.address + KeySlots::BYTES};
    const auto keys_of = [&](int n) { return Keys{base + n % SLOTS * SLOT_BYTES}; };
    const auto values_of = [&](int n) { return Values{base + n % SLOTS * SLOT_BYTES + Keys::BYTES}; };
    const auto queries_of = [&](int t) { return Queries{base + STAGES_AT + t % STAGES * STAGE_BYTES}; };
    const auto upstream_of = [&](int t) { return Upstream{base + STAGES_AT + t % STAGES * STAGE_BYTES + Queries::BYTES}; };
    const auto saved_of = [&](int t) { return base + SAVED_AT + t % STAGES * SAVED_BYTES; };
    if (threadIdx.x == 0) {
        slots.ring().init();
        ring.init();
    }
    barriers_ready();

    const int group = threadIdx.x / GROUP;
    // Tiles of queries are counted through all work of the thread block.
    int t = 0;
    if (group == GROUPS) {
        give_registers<FEW>();
        if (threadIdx.x != GROUPS * GROUP) return;
        // The first tiles of causal attention have the most queries: they go first.
        Schedule<false> schedule;
        for (int n = 0;; n++, schedule.advance()) {
            const Work work = schedule.work(p.keys, KEY_TILE, p.kv_heads, p.batch);
            slots.claim(n, work, SLOT_BYTES);
            if (work.start == Work::NONE) break;
            copy_panels(keys_of(n), maps.key, work.start, work.head, work.example, slots.full(n));
            copy_panels(values_of(n), maps.value, work.start, work.head, work.example, slots.full(n));
            for (Cursor next(p, work.head, work.start); !next.done(); t++, next.advance()) {
                const int first = next.tile * QUERY_TILE;
                ring.claim(t, STAGE_BYTES + SAVED_BYTES);
                copy_panels(queries_of(t), maps.query, first, next.head, work.example, ring.full(t));
                copy_panels(upstream_of(t), maps.upstream, first, next.head, work.example, ring.full(t));
                copy_bytes(saved_of(t), p.saved_row(work.example, next.head, first), SAVED_BYTES, ring.full(t));
            }
        }
        schedule.leave();
    } else {
        take_registers<many_registers(GROUPS, FEW)>();
        const int group_row = group * GROUP_ROWS, row = threadIdx.x / WARP * 16;
        for (int n = 0;; n++) {
            const Work work = slots.await(n);
            if (work.start == Work::NONE) break;
            const int start_key = work.start, kv_head = work.head, example = work.example;
            Cursor next(p, kv_head, start_key);
            Sums<1, Keys::COLUMNS> key_gradient;
            Sums<1, Values::COLUMNS> value_gradient;
            key_gradient.clear();
            value_gradient.clear();
            Sums<1, QUERY_TILE> weights, slopes;
            Packed<QUERY_TILE> packed_weights, packed_slopes;
            const auto start_pairs = [&](int t) {
                ring.await(t);
                products_begin();
                start_transposed(weights, keys_of(n), group_row, queries_of(t));
                products_commit();
                start_transposed(slopes, values_of(n), group_row, upstream_of(t));
                products_commit();
            };
            const auto start_gradients = [&](int t) {
                start(value_gradient, packed_weights, upstream_of(t));
                start(key_gradient, packed_slopes, queries_of(t));
                products_commit();
            };
            // Tile t is the cursor's, which moves on.
            const auto finish_weights = [&](int t) {
                settled(weights);
                const TileAt at = {example, next.head, next.tile * QUERY_TILE, start_key + row, nullptr};
                next.advance();
                Derivatives<1, QUERY_TILE> unused;
                finish_scores<true>(p, at, weights, unused);
                to_weights<true>(p, at, weights, QueryColumns{saved_of(t)});
            };
            const auto finish_slopes = [&](int t) {
                settled(slopes);
                to_slopes(p, slopes, weights, QueryColumns{saved_of(t)});
            };
            const auto settle_gradients = [&](int t) {
                products_wait<0>();
                settled(key_gradient);
                settled(value_gradient);
                ring.release(t);
            };
            const auto pack_both = [&] {
                packed_weights.template set<true>(weights);
                packed_slopes.template set<false>(slopes);
            };
            if (!next.done()) {
                start_pairs(t);
                products_wait<1>();
                finish_weights(t);
                products_wait<0>();
                finish_slopes(t);
                pack_both();
                for (; !next.done(); t++) {
                    start_pairs(t + 1);
                    start_gradients(t);
                    products_wait<2>();
                    finish_weights(t + 1);
                    products_wait<1>();
                    finish_slopes(t + 1);
                    settle_gradients(t);
                    pack_both();
                }
                products_begin();
                start_gradients(t);
                settle_gradients(t);
                t++;
            }
            // All products with keys and values are done.
            slots.release(n);
            if (has_dropout) scale_sums(value_gradient, p.dropout.scale);
            scale_sums(key_gradient, p.scale);
            Element* to = p.value_gradient.at(example, kv_head, start_key);
            write_rows(value_gradient, Values{base + GRADIENT_AT}, row, to, p.value_gradient.row_stride, p.keys - start_key);
            to = p.key_gradient.at(example, kv_head, start_key);
            write_rows(key_gradient, Keys{base + GRADIENT_AT}, row, to, p.key_gradient.row_stride, p.keys - start_key);
        }
    }
}
