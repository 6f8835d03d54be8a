// The gradient of the queries in bf16 on Hopper's tensor cores: dQ = scale·Σ dS·K, a thread block for each tile of queries of a head.
//
// Weights are recomputed here and once more for keys and values, as in `mma_query_gradient.cu`: every sum has one order, without atomics.
//
// Work. Two warpgroups own 64 queries each, a third copies; tiles of 64 or 128 keys go by. In step t, the tensor cores compute the products of tile t + 1 and
// add tile t to the gradient, while the warps turn what is ready into weights and slopes. Shared memory: queries and upstream once, keys and values of a
// tile in three stages, since they are used in two steps.
//
// Needs `saved_rows` (delta.cu). Grid: (query tiles, heads, batch).
#include "mma_slopes.cuh"
#include "wgmma.cuh"

constexpr bool NARROW = width <= 64 && value_width <= 64;
constexpr int GROUPS = 2, KEY_TILE = NARROW && few_registers ? 128 : 64, STAGES = 3;
constexpr int BLOCK_THREADS = (GROUPS + 1) * GROUP, QUERY_TILE = GROUPS * GROUP_ROWS;
typedef Panels<QUERY_TILE, width> Queries;
typedef Panels<QUERY_TILE, value_width> Upstream;
typedef Panels<KEY_TILE, width> Keys;
typedef Panels<KEY_TILE, value_width> Values;
typedef Ring<STAGES, GROUPS * 4> Tile;

constexpr int STAGE_BYTES = Keys::BYTES + Values::BYTES;
constexpr int UPSTREAM_AT = Queries::BYTES, STAGES_AT = UPSTREAM_AT + Upstream::BYTES, BARRIERS_AT = STAGES_AT + STAGES * STAGE_BYTES;

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_query_gradient_launch[3] = {BLOCK_THREADS, BARRIERS_AT + 8 + Tile::BYTES, QUERY_TILE};

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
attention_query_gradient(const __grid_constant__ Problem p, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const u32 base = shared_address(shared_memory), queries_full = base + BARRIERS_AT;
    const Tile ring = {queries_full + 8};
    const int start_query = (gridDim.x - 1 - blockIdx.x) * QUERY_TILE, head = blockIdx.y, example = blockIdx.z;
    const int tiles = key_tiles(p, example, head, start_query, QUERY_TILE, KEY_TILE).count;
    const Queries queries = {base};
    const Upstream upstream = {base + UPSTREAM_AT};
    const auto keys_of = [&](int t) { return Keys{base + STAGES_AT + t % STAGES * STAGE_BYTES}; };
    const auto values_of = [&](int t) { return Values{base + STAGES_AT + t % STAGES * STAGE_BYTES + Keys::BYTES}; };
    if (threadIdx.x == 0) {
        barrier_init(queries_full, 1);
        ring.init();
    }
    barriers_ready();

    const int group = threadIdx.x / GROUP;
    if (group == GROUPS) {
        give_registers<FEW_REGISTERS>();
        if (threadIdx.x != GROUPS * GROUP) return;
        const int kv_head = p.kv_head(head);
        barrier_expect(queries_full, Queries::BYTES + Upstream::BYTES);
        copy_panels(queries, maps.query, start_query, head, example, queries_full);
        copy_panels(upstream, maps.upstream, start_query, head, example, queries_full);
        for (int t = 0; t < tiles; t++) {
            ring.claim(t, STAGE_BYTES);
            copy_panels(keys_of(t), maps.key, t * KEY_TILE, kv_head, example, ring.full(t));
            copy_panels(values_of(t), maps.value, t * KEY_TILE, kv_head, example, ring.full(t));
        }
    } else {
        take_registers<many_registers(GROUPS, 1)>();
        const int group_row = group * GROUP_ROWS, row = threadIdx.x / WARP * 16;
        // On the diagonal of causal attention, some warpgroups need fewer tiles.
        const int own = key_tiles(p, example, head, start_query + group_row, GROUP_ROWS, KEY_TILE).count;
        const QueryRows<1> rows(p.saved_row(example, head, start_query + row), p.queries - start_query - row);
        Sums<1, Keys::COLUMNS> gradient;
        gradient.clear();
        Sums<1, KEY_TILE> weights, slopes;
        Packed<KEY_TILE> packed;
        const auto start_pairs = [&](int t) {
            start_transposed(weights, queries, group_row, keys_of(t));
            products_commit();
            start_transposed(slopes, upstream, group_row, values_of(t));
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
        barrier_wait(queries_full, 0);
        if (own > 0) {
            ring.await(0);
            products_begin();
            start_pairs(0);
            products_wait<1>();
            finish_weights(0);
            products_wait<0>();
            finish_slopes();
            packed.set<false>(slopes);
        }
        for (int t = 0; t + 1 < own; t++) {
            ring.await(t + 1);
            products_begin();
            start_pairs(t + 1);
            start(gradient, packed, keys_of(t));
            products_commit();
            products_wait<2>();
            finish_weights(t + 1);
            products_wait<1>();
            finish_slopes();
            products_wait<0>();
            settled(gradient);
            ring.release(t);
            packed.set<false>(slopes);
        }
        if (own > 0) {
            products_begin();
            start(gradient, packed, keys_of(own - 1));
            products_commit();
            products_wait<0>();
            settled(gradient);
            ring.release(own - 1);
        }
        // Tiles for the others.
        for (int t = own; t < tiles; t++) {
            ring.await(t);
            ring.release(t);
        }
        scale_sums(gradient, p.scale);
        // The queries make room for their gradient.
        group_sync(group);
        Element* to = p.query_gradient.at(example, head, start_query);
        write_rows(gradient, queries, row, to, p.query_gradient.row_stride, p.queries - start_query);
    }
}
