// All gradients in bf16 on Hopper's tensor cores, in one pass over the pairs: dV = Σ Pᵀ·dO and dK = scale·Σ dSᵀ·Q for a tile of keys, whose part of
// dQ = scale·Σ dS·K is added in memory, tile of keys after tile of keys, always in the same order. Five products; two passes of their own would take seven.
//
//     attention_gradients             Grid: as many thread blocks as there are multiprocessors, or fewer.
//     attention_finish_query_gradient dQ from its sums. Grid (tiles of queries, heads, batch).
//
// Work. Tiles are transposed, as in `mma_key_value_gradient.cu`: rows are keys, columns queries. Two warpgroups own 64 keys each, a third copies and adds;
// tiles of 32 or 64 queries go by. In step t, the tensor cores compute the products of tile t + 1 and add tile t to the gradients, while the warps turn what is ready
// into weights and slopes. Slopes also go to shared memory, from where each warpgroup multiplies all of them with half of the keys' features, or for half of the
// queries: dQᵀ = Kᵀ·dSᵀ. The result leaves through shared memory, and the copy engine adds it to the sums.
//
// Order. A tile of queries gets its parts from the last tile of keys to the first. `turns` counts the parts that have arrived; who comes later waits. Pieces of
// work are taken in this order too, so nobody waits for work that has not begun. See `KeyTiles` for what keeps the waits short.
//
// Shared memory: keys and values, twice where they are narrow; queries, upstream and saved rows of a tile in three stages, since they are used in two steps; slopes of two
// tiles; parts of dQ on their way out; room through which the other gradients leave.
//
// Needs `saved_rows`, and `turns` of zeros (delta.cu).
#include "mma_slopes.cuh"
#include "wgmma.cuh"

constexpr bool NARROW = width <= 64 && value_width <= 64;
constexpr int GROUPS = 2, GROUP_WARPS = 4, QUERY_TILE = NARROW ? 64 : 32;
constexpr int SLOTS = NARROW ? 2 : 1, STAGES = 3;
/// Buffers of slopes: of the tile whose part of dQ is computed next, and of the one after it.
constexpr int SLOPES = 3;
/// Buffers of parts of dQ on their way out.
constexpr int PARTS = 3;
/// Warps that add parts of dQ: the way to memory and back takes longer than a step.
constexpr int ADDERS = 3;
/// Registers of a thread that copies or adds.
constexpr int FEW = 40;
constexpr int BLOCK_THREADS = (GROUPS + 1) * GROUP, KEY_TILE = GROUPS * GROUP_ROWS;
typedef Panels<KEY_TILE, width> Keys;
typedef Panels<KEY_TILE, value_width> Values;
typedef Panels<QUERY_TILE, width> Queries;
typedef Panels<QUERY_TILE, value_width> Upstream;
/// Rows are queries; each warpgroup writes the panel of its keys.
typedef Panels<QUERY_TILE, KEY_TILE> Slopes;
typedef Ring<STAGES, GROUPS * GROUP_WARPS> Tile;
typedef Slots<SLOTS, GROUPS * GROUP_WARPS + ADDERS> KeySlots;

/// A warpgroup's part of dQᵀ: 64 features and so many queries.
constexpr int PART_QUERIES = Keys::COUNT == GROUPS ? QUERY_TILE : QUERY_TILE / GROUPS;
typedef Sums<1, PART_QUERIES> Part;
constexpr int PART_BYTES = GROUP_ROWS * PART_QUERIES * sizeof(float), SUM_BYTES = GROUPS * PART_BYTES;

constexpr int SLOT_BYTES = Keys::BYTES + Values::BYTES, STAGE_BYTES = Queries::BYTES + Upstream::BYTES, SAVED_BYTES = QUERY_TILE * sizeof(SavedRow);
constexpr int GRADIENT_AT = SLOTS * SLOT_BYTES, GRADIENT_BYTES = Keys::BYTES > Values::BYTES ? Keys::BYTES : Values::BYTES;
constexpr int STAGES_AT = GRADIENT_AT + GRADIENT_BYTES, SLOPES_AT = STAGES_AT + STAGES * STAGE_BYTES, PARTS_AT = SLOPES_AT + SLOPES * Slopes::BYTES;
// Saved rows come after what must begin at multiples of 1024 bytes.
constexpr int SAVED_AT = PARTS_AT + PARTS * SUM_BYTES, BARRIERS_AT = SAVED_AT + STAGES * SAVED_BYTES;

/// Buffers that all warps of the products fill, and `users` threads use.
template <int buffers, int users>
struct Exchange {
    static constexpr int BYTES = 2 * buffers * 8;
    u32 address;

    __device__ u32 full(int t) const { return address + t % buffers * 8; }
    __device__ u32 empty(int t) const { return address + (buffers + t % buffers) * 8; }
    __device__ static u32 round(int t) { return t / buffers & 1; }
    __device__ void init() const {
#pragma unroll
        for (int i = 0; i < buffers; i++) barrier_init(full(i), GROUPS * GROUP_WARPS), barrier_init(empty(i), users);
    }
    /// Waits until what is of tile t may be written. Each buffer is free at first.
    __device__ void claim(int t) const { barrier_wait(empty(t), round(t) ^ 1); }
    /// A warp has written its share, for the engines.
    __device__ void written(int t) const {
        written_for_engines();
        if (threadIdx.x % WARP == 0) barrier_arrive(full(t));
    }
    __device__ void await(int t) const { barrier_wait(full(t), round(t)); }
};
typedef Exchange<SLOPES, GROUPS * GROUP_WARPS> SlopesExchange;
typedef Exchange<PARTS, 1> PartsExchange;

/// For the host: threads, bytes of shared memory and keys of a thread block.
extern "C" __device__ int attention_gradients_launch[3] = {BLOCK_THREADS, BARRIERS_AT + KeySlots::BYTES + Tile::BYTES + SlopesExchange::BYTES + PartsExchange::BYTES, KEY_TILE};
/// Threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_finish_query_gradient_launch[3] = {256, QUERY_TILE * (Keys::COLUMNS + 8) * 2, QUERY_TILE};

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

/// How many tiles of keys a tile of queries gets parts from.
__device__ inline int parts_of(const Problem& p, int query_tile) {
    const int end = causal ? max(0, min((query_tile + 1) * QUERY_TILE + p.offset(), p.keys)) : p.keys;
    return ceil_div(end, KEY_TILE);
}
/// The sums of a tile of queries, and the count of parts in them.
__device__ inline float* sums_of(const Problem& p, int example, int head, int query_tile) {
    return p.query_sums + ((i64(example) * p.heads + head) * (p.padded_queries() / QUERY_TILE) + query_tile) * (SUM_BYTES / 4);
}

/// The order of the work: the last tile of keys of several heads, then the one before it of the same heads, and so on. Parts from tiles of keys that follow each other must be
/// added one after another; between them come those of the other heads, and in causal attention the later tile has less before it. Several heads, so that the first tiles come
/// when the last ones are well ahead; few, so that what they share stays in the cache.
struct KeyTiles {
    u32 number;

    __device__ KeyTiles() { advance(); }
    // Also the first piece: whoever waits for a piece then knows that it has begun.
    __device__ void advance() { number = atomicAdd(&work_taken, 1); }
    __device__ Work work(const Problem& p) const {
        const u32 tiles = ceil_div(p.keys, KEY_TILE), planes = p.kv_heads * p.batch;
        if (number >= tiles * planes) return {Work::NONE, 0, 0};
        const u32 most = ceil_div(gridDim.x, tiles), first = number / (most * tiles) * most;
        const u32 together = min(most, planes - first), within = number - first * tiles, plane = first + within % together;
        return {int(tiles - 1 - within / together) * KEY_TILE, int(plane % p.kv_heads), int(plane / p.kv_heads)};
    }
    /// After the last piece.
    __device__ void leave() const {
        __threadfence();
        if (atomicAdd(&blocks_gone, 1) + 1 == gridDim.x) work_taken = blocks_gone = 0;
    }
};

/// Adds parts of dQ to the sums in memory, or begins a sum with one, when its turn has come.
__device__ inline void add_part(u32 from, u32 empty, float* to, u32* turn, u32 expected) {
    u32 arrived;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(turn) : "memory");
    while (arrived != expected);
    asm volatile("fence.proxy.async;" ::: "memory");
    if (expected == 0)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "n"(SUM_BYTES) : "memory");
    else
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "n"(SUM_BYTES) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
    barrier_arrive(empty);
    asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;" ::: "memory");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(expected + 1) : "memory");
}

/// Writes slopes, packed, for products of all warpgroups: transposed, so that rows are queries.
__device__ inline void store_slopes(const Packed<QUERY_TILE>& slopes, Slopes to) {
    const int lane = threadIdx.x % WARP, matrix = lane / 8, piece = threadIdx.x / WARP * 2 + (matrix & 1);
#pragma unroll
    for (int k = 0; k < QUERY_TILE / 16; k++)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(to.at(k * 16 + matrix / 2 * 8 + lane % 8, piece)), "r"(slopes.at[k][0]), "r"(slopes.at[k][1]), "r"(slopes.at[k][2]), "r"(slopes.at[k][3]) : "memory");
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
attention_gradients(const __grid_constant__ Problem p, const __grid_constant__ Maps maps) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const u32 base = shared_address(shared_memory);
    const KeySlots slots = {base + BARRIERS_AT};
    const Tile ring = {slots.address + KeySlots::BYTES};
    const SlopesExchange slopes_exchange = {ring.address + Tile::BYTES};
    const PartsExchange parts_exchange = {slopes_exchange.address + SlopesExchange::BYTES};
    const auto keys_of = [&](int n) { return Keys{base + n % SLOTS * SLOT_BYTES}; };
    const auto values_of = [&](int n) { return Values{base + n % SLOTS * SLOT_BYTES + Keys::BYTES}; };
    const auto queries_of = [&](int t) { return Queries{base + STAGES_AT + t % STAGES * STAGE_BYTES}; };
    const auto upstream_of = [&](int t) { return Upstream{base + STAGES_AT + t % STAGES * STAGE_BYTES + Queries::BYTES}; };
    const auto saved_of = [&](int t) { return base + SAVED_AT + t % STAGES * SAVED_BYTES; };
    const auto slopes_of = [&](int t) { return Slopes{base + SLOPES_AT + t % SLOPES * Slopes::BYTES}; };
    const auto part_of = [&](int t) { return base + PARTS_AT + t % PARTS * SUM_BYTES; };
    if (threadIdx.x == 0) {
        slots.ring().init();
        ring.init();
        slopes_exchange.init();
        parts_exchange.init();
    }
    barriers_ready();

    const int group = threadIdx.x / GROUP;
    // Tiles of queries are counted through all work of the thread block.
    int t = 0;
    if (group == GROUPS) {
        give_registers<FEW>();
        if (threadIdx.x % WARP != 0) return;
        const int adder = threadIdx.x / WARP - GROUPS * GROUP_WARPS - 1;
        if (adder < 0) {
            KeyTiles schedule;
            for (int n = 0;; n++, schedule.advance()) {
                const Work work = schedule.work(p);
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
            for (int n = 0;; n++) {
                const Work work = slots.await_one(n);
                slots.release(n);
                if (work.start == Work::NONE) break;
                for (Cursor next(p, work.head, work.start); !next.done(); t++, next.advance()) {
                    if (t % ADDERS != adder) continue;
                    u32* turn = p.turn(work.example, next.head, next.tile * QUERY_TILE);
                    parts_exchange.await(t);
                    add_part(part_of(t), parts_exchange.empty(t), sums_of(p, work.example, next.head, next.tile), turn, parts_of(p, next.tile) - 1 - work.start / KEY_TILE);
                }
            }
        }
    } else {
        take_registers<many_registers(GROUPS, FEW)>();
        const int group_row = group * GROUP_ROWS, row = threadIdx.x / WARP * 16, lane = threadIdx.x % WARP;
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
            Part part;
            const auto start_pairs = [&](int t) {
                ring.await(t);
                products_begin();
                start_transposed(weights, keys_of(n), group_row, queries_of(t));
                products_commit();
                start_transposed(slopes, values_of(n), group_row, upstream_of(t));
                products_commit();
            };
            const auto start_part = [&](int t) {
                if (Keys::COUNT == GROUPS)
                    start_sum_of_rows(part, keys_of(n), group, slopes_of(t), 0);
                else
                    start_sum_of_rows(part, keys_of(n), 0, slopes_of(t), group * PART_QUERIES);
            };
            // The part of dQ that tile t gets goes to whoever adds it.
            const auto finish_part = [&](int t) {
                settled(part);
                if (lane == 0) barrier_arrive(slopes_exchange.empty(t));
                parts_exchange.claim(t);
                const u32 to = part_of(t) + group * PART_BYTES + threadIdx.x % GROUP * 16;
#pragma unroll
                for (int c = 0; c < PART_QUERIES / 8; c++) store_shared(to + c * GROUP * 16, part.at[0][c]);
                parts_exchange.written(t);
            };
            // Of tile t, which is the cursor's. It moves on.
            const auto finish_pairs = [&](int t) {
                products_wait<1>();
                settled(weights);
                const TileAt at = {example, next.head, next.tile * QUERY_TILE, start_key + row, nullptr};
                next.advance();
                Derivatives<1, QUERY_TILE> unused;
                finish_scores<true>(p, at, weights, unused);
                to_weights<true>(p, at, weights, QueryColumns{saved_of(t)});
                products_wait<0>();
                settled(slopes);
                to_slopes(p, slopes, weights, QueryColumns{saved_of(t)});
                packed_weights.template set<true>(weights);
                packed_slopes.template set<false>(slopes);
                slopes_exchange.claim(t);
                store_slopes(packed_slopes, slopes_of(t));
                slopes_exchange.written(t);
            };
            const auto start_gradients = [&](int t, bool more) {
                if (more) slopes_exchange.await(t - 1);
                products_begin();
                start(value_gradient, packed_weights, upstream_of(t));
                start(key_gradient, packed_slopes, queries_of(t));
                if (more) start_part(t - 1);
                products_commit();
            };
            const auto finish_gradients = [&](int t, bool more) {
                settled(key_gradient);
                settled(value_gradient);
                ring.release(t);
                if (more) finish_part(t - 1);
            };
            const auto step = [&](bool more) {
                start_gradients(t, more);
                start_pairs(t + 1);
                products_wait<2>();
                finish_gradients(t, more);
                finish_pairs(t + 1);
                t++;
            };
            const auto last_step = [&](bool more) {
                start_gradients(t, more);
                products_wait<0>();
                finish_gradients(t, more);
            };
            if (!next.done()) {
                start_pairs(t);
                finish_pairs(t);
                if (next.done()) {
                    last_step(false);
                } else {
                    step(false);
                    while (!next.done()) step(true);
                    last_step(true);
                }
                slopes_exchange.await(t);
                products_begin();
                start_part(t);
                products_commit();
                products_wait<0>();
                finish_part(t++);
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

extern "C" __global__ void __launch_bounds__(256) attention_finish_query_gradient(const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    constexpr int ROW = Keys::COLUMNS + 8, PIECES = width / 8;
    unsigned short* tile = (unsigned short*)shared_memory;
    const int query_tile = blockIdx.x, head = blockIdx.y, example = blockIdx.z;
    const float4* sums = (const float4*)sums_of(p, example, head, query_tile);
    const bool any = parts_of(p, query_tile) > 0;
    // As `finish_part` laid them: lanes of a warpgroup, columns, warpgroups.
#pragma unroll
    for (int i = threadIdx.x; i < SUM_BYTES / 16; i += 256) {
        const float4 sum = any ? sums[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        const int thread = i % GROUP, c = i / GROUP % (PART_QUERIES / 8), group = i / GROUP / (PART_QUERIES / 8), lane = thread % WARP;
        const int feature = (Keys::COUNT == GROUPS ? group * GROUP_ROWS : 0) + thread / WARP * 16 + lane / 4;
        const int query = (Keys::COUNT == GROUPS ? 0 : group * PART_QUERIES) + c * 8 + lane % 4 * 2;
        const u32 low = pack(sum.x * p.scale, sum.y * p.scale), high = pack(sum.z * p.scale, sum.w * p.scale);
        tile[query * ROW + feature] = low, tile[(query + 1) * ROW + feature] = low >> 16;
        tile[query * ROW + feature + 8] = high, tile[(query + 1) * ROW + feature + 8] = high >> 16;
    }
    __syncthreads();
    const int start = query_tile * QUERY_TILE;
    for (int i = threadIdx.x; i < QUERY_TILE * PIECES; i += 256) {
        const int query = i / PIECES, piece = i % PIECES;
        if (start + query < p.queries) *(uint4*)(p.query_gradient.at(example, head, start + query) + piece * 8) = *(const uint4*)(tile + query * ROW + piece * 8);
    }
}
