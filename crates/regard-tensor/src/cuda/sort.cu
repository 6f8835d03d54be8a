// Ids in ascending order, equal ones in the order in which they came: a radix sort by digits of four bits, the lowest
// first. Each pass counts the digits of each block's items, turns the counts into places, and moves the items there.

#include "block.cuh"

constexpr int THREADS = 256;
constexpr int ITEMS = 8; // neighbours that one thread takes, so that the order among equals is kept
constexpr int TILE = THREADS * ITEMS;
constexpr int DIGITS = 16;

__device__ u32 digit(u32 id, u32 shift) { return (id >> shift) % DIGITS; }

// The exclusive prefix sums of a warp's values; `total` becomes their sum.
__device__ u32 warp_prefix(u32 x, u32& total) {
    u32 sum = x;
    for (int back = 1; back < WARP; back *= 2) {
        u32 other = __shfl_up_sync(~0u, sum, back);
        if (lane() >= back) sum += other;
    }
    total = __shfl_sync(~0u, sum, WARP - 1);
    return sum - x;
}

// How often each digit occurs among each thread's items.
__device__ void count_items(const u32* ids, u64 count, u32 shift, u32 (*counts)[THREADS]) {
    for (int d = 0; d < DIGITS; d++) counts[d][threadIdx.x] = 0;
    u64 start = u64(blockIdx.x) * TILE + threadIdx.x * ITEMS;
    for (u64 i = start; i < start + ITEMS && i < count; i++) counts[digit(ids[i], shift)][threadIdx.x]++;
    __syncthreads();
}

// Turns the counts of one digit into prefix sums over the threads; returns their sum. Called by whole warps.
__device__ u32 scan_threads(u32* counts) {
    u32 before = 0, total;
    for (int i = lane(); i < THREADS; i += WARP) {
        u32 prefix = warp_prefix(counts[i], total);
        counts[i] = before + prefix;
        before += total;
    }
    return before;
}

// places[digit][block] = how often the digit occurs in the block.
extern "C" __global__ void count_digits(const u32* ids, u32* places, u64 count, u32 shift) {
    __shared__ u32 counts[DIGITS][THREADS];
    count_items(ids, count, shift, counts);
    for (int d = warp(); d < DIGITS; d += THREADS / WARP) {
        u32 total = scan_threads(counts[d]);
        if (lane() == 0) places[u64(d) * gridDim.x + blockIdx.x] = total;
    }
}

// Exclusive prefix sums in place, by one block of 1,024 threads.
extern "C" __global__ void scan(u32* places, u64 count) {
    __shared__ u32 of_warps[WARP];
    __shared__ u32 carried;
    if (threadIdx.x == 0) carried = 0;
    for (u64 start = 0; start < count; start += blockDim.x) {
        u64 i = start + threadIdx.x;
        u32 total, all;
        u32 x = i < count ? places[i] : 0;
        u32 prefix = warp_prefix(x, total);
        __syncthreads();
        if (lane() == 0) of_warps[warp()] = total;
        __syncthreads();
        u32 warps = warp_prefix(of_warps[lane()], all);
        u32 before = carried + __shfl_sync(~0u, warps, warp());
        if (i < count) places[i] = before + prefix;
        __syncthreads();
        if (threadIdx.x == 0) carried += all;
    }
}

// Moves each item to its place. `order` may be null in the first pass, where it is 0, 1, 2, ...
extern "C" __global__ void scatter(const u32* ids, const u32* order, u32* new_ids, u32* new_order, const u32* places,
                                   u64 count, u32 shift) {
    __shared__ u32 counts[DIGITS][THREADS];
    count_items(ids, count, shift, counts);
    for (int d = warp(); d < DIGITS; d += THREADS / WARP) scan_threads(counts[d]);
    __syncthreads();
    u64 start = u64(blockIdx.x) * TILE + threadIdx.x * ITEMS;
    for (u64 i = start; i < start + ITEMS && i < count; i++) {
        u32 d = digit(ids[i], shift);
        u32 to = places[u64(d) * gridDim.x + blockIdx.x] + counts[d][threadIdx.x]++;
        new_ids[to] = ids[i];
        new_order[to] = order ? order[i] : u32(i);
    }
}
