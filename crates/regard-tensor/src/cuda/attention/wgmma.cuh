// Products of a warpgroup on Hopper's tensor cores (wgmma, sm_90a): bf16 in, f32 sums.
//
// Four warps issue a product together and go on while it runs. The right operand is read from shared memory, the left one from there or from registers.
// Results lie as those of `mma.cuh` do: warp w of the group holds rows 16w…16w + 15 as `Sums<1, columns>`, and packed to bf16 they are the left operand
// of the next product. All that scores.cuh, online.cuh and slopes do with a warp's registers works here unchanged.
//
// Matrices in shared memory. Features are cut into panels of 64; a row of a panel has 128 bytes, and its 16-byte piece c of row r lies at place c ^ (r % 8).
// This is the hardware's 128-byte swizzle: panels begin at multiples of 1024 bytes.
//
// Copies. One warpgroup only copies: the hardware's copy engine brings whole tiles (TMA, from tensor maps that the host made), and barriers in shared memory say
// when a stage is full and when all warps have used it. The other warpgroups multiply, each at its own pace.
#pragma once
#include "scores.cuh"

// What these kernels leave to those of `mma.cuh`: registers would not do.
static_assert(!has_pattern && !has_soft_cap && width <= 128 && value_width <= 128);

constexpr int GROUP = 128, GROUP_ROWS = 64, PANEL = 64, PANEL_ROW = 128;

/// A matrix of `rows` rows (a multiple of 8) in shared memory.
template <int rows_, int features_>
struct Panels {
    static constexpr int rows = rows_, features = features_, COUNT = (features + PANEL - 1) / PANEL, COLUMNS = COUNT * PANEL;
    static constexpr int PANEL_BYTES = rows * PANEL_ROW, BYTES = COUNT * PANEL_BYTES, PIECES = COLUMNS / 8;
    u32 address;

    __device__ u32 at(int row, int piece) const {
        return address + piece / 8 * PANEL_BYTES + row * PANEL_ROW + ((piece % 8 ^ (row & 7)) << 4);
    }
};

/// Where a matrix lies in memory, for the copy engine: (features, rows, heads, examples), copied in boxes of 64 features and `BOX_ROWS` rows. Made by the host.
struct __align__(64) TensorMap { u64 words[16]; };
struct Maps { TensorMap query, key, value, upstream; };
constexpr int BOX_ROWS = 32;

/// A barrier in shared memory that `count` arrivals complete.
__device__ inline void barrier_init(u32 barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void barrier_arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }
/// Arrives, and has the barrier wait for so many bytes that the copy engine will write.
__device__ inline void barrier_expect(u32 barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra end;\nbra wait;\nend:\n}"
                 ::"r"(barrier), "r"(parity) : "memory");
}

/// Stages that one thread fills and several warps use, in the order of the tiles.
template <int stages, int warps>
struct Ring {
    static constexpr int BYTES = 2 * stages * 8;
    u32 address;

    __device__ u32 full(int t) const { return address + t % stages * 8; }
    __device__ u32 empty(int t) const { return address + (stages + t % stages) * 8; }
    __device__ static u32 round(int t) { return t / stages & 1; }

    __device__ void init() const {
#pragma unroll
        for (int i = 0; i < stages; i++) barrier_init(full(i), 1), barrier_init(empty(i), warps);
    }
    /// For the thread that copies: waits until tile t may be copied, and says how many bytes will come. Each stage is free at first.
    __device__ void claim(int t, int bytes) const {
        barrier_wait(empty(t), round(t) ^ 1);
        barrier_expect(full(t), bytes);
    }
    /// For those who use it: waits for tile t.
    __device__ void await(int t) const { barrier_wait(full(t), round(t)); }
    /// A warp has used tile t.
    __device__ void release(int t) const {
        if (threadIdx.x % WARP == 0) barrier_arrive(empty(t));
    }
};

/// A piece of a kernel's work: a tile of rows of a head of an example.
struct Work {
    int start, head, example;
    /// The start of a piece that does not exist.
    static constexpr int NONE = -1;
};

// Thread blocks stay on their multiprocessor and take piece after piece of work: the copies for the next one begin while the last is finished. A piece goes to
// whoever is free, which changes no result: each has rows of its own. The last thread block to leave makes the counters ready for the next launch.
__device__ u32 work_taken, blocks_gone;

/// All work of a launch, with any number of thread blocks. Tiles of one head follow each other, so that what they share is in the cache; `backwards` the last
/// tile goes first. Sizes are given anew for each piece: the copying thread has few registers.
template <bool backwards>
struct Schedule {
    u32 number;

    __device__ Schedule() : number(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) {}
    __device__ static u32 blocks() { return gridDim.x * gridDim.y * gridDim.z; }
    __device__ void advance() { number = blocks() + atomicAdd(&work_taken, 1); }
    __device__ Work work(int rows, int tile, u32 heads, u32 batch) const {
        const u32 tiles = ceil_div(rows, tile);
        if (number >= tiles * heads * batch) return {Work::NONE, 0, 0};
        const u32 at = number % tiles, plane = number / tiles;
        return {int(backwards ? tiles - 1 - at : at) * tile, int(plane % heads), int(plane / heads)};
    }
    /// After the last piece.
    __device__ void leave() const {
        __threadfence();
        if (atomicAdd(&blocks_gone, 1) + 1 == blocks()) work_taken = blocks_gone = 0;
    }
};

/// Slots for what stays in shared memory during a piece of work, each with the piece itself.
template <int slots, int warps>
struct Slots {
    typedef Ring<slots, warps> Barriers;
    static constexpr int BYTES = Barriers::BYTES + slots * 16;
    u32 address;

    __device__ Barriers ring() const { return {address + slots * 16}; }
    __device__ u32 full(int n) const { return ring().full(n); }
    __device__ void release(int n) const { ring().release(n); }
    /// For the thread that copies: the thread block's n-th piece comes with so many bytes, or there is none.
    __device__ void claim(int n, Work work, int bytes) const {
        barrier_wait(ring().empty(n), Barriers::round(n) ^ 1);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %3};" ::"r"(address + n % slots * 16), "r"(work.start), "r"(work.head), "r"(work.example) : "memory");
        if (work.start == Work::NONE) barrier_arrive(full(n)); else barrier_expect(full(n), bytes);
    }
    /// For a thread that uses it: waits for the n-th piece.
    __device__ Work await_one(int n) const {
        ring().await(n);
        Work work;
        int unused;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(work.start), "=r"(work.head), "=r"(work.example), "=r"(unused)
                     : "r"(address + n % slots * 16) : "memory");
        return work;
    }
    /// For whole warps.
    __device__ Work await(int n) const {
        Work work = await_one(n);
        // The same for all lanes, as products need it.
        work.start = __shfl_sync(0xffffffff, work.start, 0);
        return work;
    }
};

/// Copies the rows from `row` on of a head; rows and features outside become zeros. `barrier` gets `M::BYTES` bytes.
template <typename M>
__device__ inline void copy_panels(M to, const TensorMap& map, int row, int head, int example, u32 barrier) {
    static_assert(M::rows % BOX_ROWS == 0);
#pragma unroll
    for (int panel = 0; panel < M::COUNT; panel++)
#pragma unroll
        for (int r = 0; r < M::rows; r += BOX_ROWS)
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
                         ::"r"(to.address + panel * M::PANEL_BYTES + r * PANEL_ROW), "l"(&map), "r"(panel * PANEL), "r"(row + r), "r"(head),
                         "r"(example), "r"(barrier) : "memory");
}
/// Copies bytes as they lie, a multiple of 16.
__device__ inline void copy_bytes(u32 to, const void* from, int bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

/// After barriers were made, before anyone uses them.
__device__ inline void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}
/// After a warp wrote shared memory that products or the copy engine read, before it says so.
__device__ inline void written_for_engines() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
}
/// All warps of a warpgroup have come here.
__device__ inline void group_sync(int group) { asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP) : "memory"); }

/// Gives registers that copying does not need to those who multiply. Each in one branch of the kernel.
template <int registers>
__device__ inline void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
/// Registers of `groups` warpgroups that share with the copying one, which keeps `few`. A thread block starts with the same number for all, rounded down to a multiple
/// of 8; asking for more than it has would wait for ever.
__device__ constexpr int many_registers(int groups, int few) {
    const int all = 65536 / ((groups + 1) * GROUP) / 8 * 8 * (groups + 1);
    return (all - few) / groups / 8 * 8;
}

/// Before the first product, and after registers that products use were written.
__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes a group of products.
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `groups` groups are under way. Name the results with `settled` afterwards.
template <int groups>
__device__ inline void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}
/// Keeps the compiler from using results before the wait above it.
template <int columns>
__device__ inline void settled(Sums<1, columns>& c) {
#pragma unroll
    for (int i = 0; i < columns / 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) asm volatile("" : "+f"(c.at[0][i][e])::"memory");
}

/// How the hardware finds a matrix: the start, bytes between panels (where the summed dimension runs along the rows), bytes between groups of 8 rows.
__device__ inline u64 descriptor(u32 address, u32 panel_bytes) {
    constexpr u64 SWIZZLE_128 = u64(1) << 62;
    return u64(address >> 4) | u64(panel_bytes >> 4) << 16 | u64(8 * PANEL_ROW >> 4) << 32 | SWIZZLE_128;
}

#define NUMBERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NUMBERS_16 NUMBERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NUMBERS_32 NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NUMBERS_64                                                                                                     \
    NUMBERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
               "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_4(io, i) io(c.at[0][i][0]), io(c.at[0][i][1]), io(c.at[0][i][2]), io(c.at[0][i][3])
#define SUMS_8(io) SUMS_4(io, 0), SUMS_4(io, 1)
#define SUMS_16(io) SUMS_8(io), SUMS_4(io, 2), SUMS_4(io, 3)
#define SUMS_32(io) SUMS_16(io), SUMS_4(io, 4), SUMS_4(io, 5), SUMS_4(io, 6), SUMS_4(io, 7)
#define SUMS_64(io)                                                                                                    \
    SUMS_32(io), SUMS_4(io, 8), SUMS_4(io, 9), SUMS_4(io, 10), SUMS_4(io, 11), SUMS_4(io, 12), SUMS_4(io, 13),         \
        SUMS_4(io, 14), SUMS_4(io, 15)
#define WGMMA(n) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 "

/// C (64×columns) = or += A (64×16) · Bᵀ, both with the summed dimension along their rows. The first product of a sum has no input: an input would have to
/// be defined while other products are under way, and the compiler would make all of them wait for each other.
template <bool add>
__device__ inline void wgmma(Sums<1, 32>& c, u64 a, u64 b) {
    if constexpr (add)
        asm volatile(WGMMA(32) "{" NUMBERS_16 "}, %16, %17, 1, 1, 1, 0, 0;" : SUMS_16("+f") : "l"(a), "l"(b));
    else
        asm volatile(WGMMA(32) "{" NUMBERS_16 "}, %16, %17, 0, 1, 1, 0, 0;" : SUMS_16("=f") : "l"(a), "l"(b));
}
template <bool add>
__device__ inline void wgmma(Sums<1, 64>& c, u64 a, u64 b) {
    if constexpr (add)
        asm volatile(WGMMA(64) "{" NUMBERS_32 "}, %32, %33, 1, 1, 1, 0, 0;" : SUMS_32("+f") : "l"(a), "l"(b));
    else
        asm volatile(WGMMA(64) "{" NUMBERS_32 "}, %32, %33, 0, 1, 1, 0, 0;" : SUMS_32("=f") : "l"(a), "l"(b));
}
template <bool add>
__device__ inline void wgmma(Sums<1, 128>& c, u64 a, u64 b) {
    if constexpr (add)
        asm volatile(WGMMA(128) "{" NUMBERS_64 "}, %64, %65, 1, 1, 1, 0, 0;" : SUMS_64("+f") : "l"(a), "l"(b));
    else
        asm volatile(WGMMA(128) "{" NUMBERS_64 "}, %64, %65, 0, 1, 1, 0, 0;" : SUMS_64("=f") : "l"(a), "l"(b));
}
/// C (64×columns) += A (64×16, in registers) · B, whose rows are the summed dimension.
__device__ inline void wgmma(Sums<1, 64>& c, const u32 (&a)[4], u64 b) {
    asm volatile(WGMMA(64) "{" NUMBERS_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SUMS_32("+f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma(Sums<1, 128>& c, const u32 (&a)[4], u64 b) {
    asm volatile(WGMMA(128) "{" NUMBERS_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : SUMS_64("+f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/// C (64×columns) = or += A · Bᵀ, where A's rows are the summed dimension, and B has it along its rows.
template <bool add>
__device__ inline void wgmma_rows(Sums<1, 16>& c, u64 a, u64 b) {
    if constexpr (add)
        asm volatile(WGMMA(16) "{" NUMBERS_8 "}, %8, %9, 1, 1, 1, 1, 0;" : SUMS_8("+f") : "l"(a), "l"(b));
    else
        asm volatile(WGMMA(16) "{" NUMBERS_8 "}, %8, %9, 0, 1, 1, 1, 0;" : SUMS_8("=f") : "l"(a), "l"(b));
}
template <bool add>
__device__ inline void wgmma_rows(Sums<1, 32>& c, u64 a, u64 b) {
    if constexpr (add)
        asm volatile(WGMMA(32) "{" NUMBERS_16 "}, %16, %17, 1, 1, 1, 1, 0;" : SUMS_16("+f") : "l"(a), "l"(b));
    else
        asm volatile(WGMMA(32) "{" NUMBERS_16 "}, %16, %17, 0, 1, 1, 1, 0;" : SUMS_16("=f") : "l"(a), "l"(b));
}

template <bool add>
__device__ inline void wgmma_rows(Sums<1, 64>& c, u64 a, u64 b) {
    if constexpr (add)
        asm volatile(WGMMA(64) "{" NUMBERS_32 "}, %32, %33, 1, 1, 1, 1, 0;" : SUMS_32("+f") : "l"(a), "l"(b));
    else
        asm volatile(WGMMA(64) "{" NUMBERS_32 "}, %32, %33, 0, 1, 1, 1, 0;" : SUMS_32("=f") : "l"(a), "l"(b));
}

/// Starts c = A·Bᵀ: rows `row…row + 63` of A and all rows of B.
template <int columns, typename A, typename B>
__device__ inline void start_transposed(Sums<1, columns>& c, A a, int row, B b) {
    static_assert(columns == B::rows && A::COUNT == B::COUNT);
#pragma unroll
    for (int k = 0; k < round_up(A::features, 16); k += 16) {
        const u32 within = k % PANEL * 2;
        const u64 left = descriptor(a.address + k / PANEL * A::PANEL_BYTES + row * PANEL_ROW + within, 16);
        const u64 right = descriptor(b.address + k / PANEL * B::PANEL_BYTES + within, 16);
        if (k == 0) wgmma<false>(c, left, right); else wgmma<true>(c, left, right);
    }
}

/// Starts c = Aᵀ·Bᵀ: a panel of A, whose rows are the summed dimension, and rows `row…` of B.
template <int columns, typename A, typename B>
__device__ inline void start_sum_of_rows(Sums<1, columns>& c, A a, int panel, B b, int row) {
    static_assert(A::rows == B::features);
#pragma unroll
    for (int k = 0; k < A::rows; k += 16) {
        const u64 left = descriptor(a.address + panel * A::PANEL_BYTES + k * PANEL_ROW, A::PANEL_BYTES);
        const u64 right = descriptor(b.address + k / PANEL * B::PANEL_BYTES + row * PANEL_ROW + k % PANEL * 2, 16);
        if (k == 0) wgmma_rows<false>(c, left, right); else wgmma_rows<true>(c, left, right);
    }
}

/// Weights or slopes as the left operand of a product.
template <int inner>
struct Packed {
    u32 at[inner / 16][4];

    /// `weights`: may have been through `mark_dropped`.
    template <bool weights>
    __device__ void set(const Sums<1, inner>& x) {
#pragma unroll
        for (int k = 0; k < inner / 16; k++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float(&y)[4] = x.at[0][2 * k + half];
                at[k][2 * half] = pack(kept<weights>(y[0]), kept<weights>(y[1]));
                at[k][2 * half + 1] = pack(kept<weights>(y[2]), kept<weights>(y[3]));
            }
    }
};

/// Starts c += A·B: A in registers, all rows of B.
template <int columns, int inner, typename B>
__device__ inline void start(Sums<1, columns>& c, const Packed<inner>& a, B b) {
    static_assert(inner == B::rows && columns == B::COLUMNS);
#pragma unroll
    for (int k = 0; k < inner; k += 16) wgmma(c, a.at[k / 16], descriptor(b.address + k * PANEL_ROW, B::PANEL_BYTES));
}
