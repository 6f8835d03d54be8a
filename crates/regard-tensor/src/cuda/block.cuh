// Sums and maxima over the threads of a warp or a block. Each thread gets the result, and the order of the sum depends on
// the number of threads alone.

#pragma once

#include "values.cuh"

constexpr int WARP = 32;

__device__ inline int lane() { return threadIdx.x % WARP; }
__device__ inline int warp() { return threadIdx.x / WARP; }

struct Sum {
    template <typename V> static __device__ V combine(V a, V b) { return a + b; }
};

struct Max {
    template <typename V> static __device__ V combine(V a, V b) { return a > b ? a : b; }
};

// Both partners of an exchange compute the same value, since both operations are commutative.
template <typename How, typename V> __device__ V warp_reduce(V x) {
    for (int other = WARP / 2; other > 0; other /= 2) x = How::combine(x, __shfl_xor_sync(~0u, x, other));
    return x;
}

// `none` is the value that changes nothing. All threads of the block must call it.
template <typename How, typename V> __device__ V block_reduce(V x, V none) {
    __shared__ V of_warps[WARP];
    x = warp_reduce<How>(x);
    if (lane() == 0) of_warps[warp()] = x;
    __syncthreads();
    x = warp_reduce<How>(lane() < blockDim.x / WARP ? of_warps[lane()] : none);
    __syncthreads(); // before the next call writes
    return x;
}

__device__ inline float warp_sum(float x) { return warp_reduce<Sum>(x); }
__device__ inline float block_sum(float x) { return block_reduce<Sum>(x, 0.0f); }

// Copies of 16 bytes to shared memory that go on while the thread does. A commit ends a group; a wait leaves so many of the
// last groups on their way.
__device__ inline void copy_async(void* to, const void* from) {
    u32 address = u32(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ inline void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ inline void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// For kernels that are launched early: they begin while earlier ones still run, and must wait before they read what those
// write, and before they write at all. What was there before the recording's first kernel may be read ahead.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Brings what is at an address into the cache that all multiprocessors share, without waiting for it.
__device__ inline void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }
