// Biases by distance: from slopes or buckets to a value for each head and distance, and back. `span` is queries + keys - 1; entry i
// is the distance query - key = i + 1 - queries.

#include "block.cuh"

__device__ float steps(u64 i, u64 queries) { return fabsf(float((long long)(i + 1) - (long long)queries)); }

// out[head, i] = -slopes[head]·|distance|
extern "C" __global__ void from_slopes(const float* slopes, float* out, u64 heads, u64 span, u64 queries) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < heads * span) out[i] = -slopes[i / span] * steps(i % span, queries);
}

// out[head] = -Σ g[head, i]·|distance|. One block a head.
extern "C" __global__ void __launch_bounds__(256) to_slopes(const float* g, float* out, u64 span, u64 queries) {
    g += blockIdx.x * span;
    double total = 0.0;
    for (u64 i = threadIdx.x; i < span; i += blockDim.x) total -= double(g[i]) * steps(i, queries);
    total = block_reduce<Sum>(total, 0.0);
    if (threadIdx.x == 0) out[blockIdx.x] = float(total);
}

// out[head, i] = table[buckets[i], head]
extern "C" __global__ void from_buckets(const float* table, const u32* buckets, float* out, u64 heads, u64 span) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < heads * span) out[i] = table[buckets[i % span] * heads + i / span];
}

// out[bucket, head] = Σ g[head, i] over the distances of the bucket. One warp a value; sums have one order.
extern "C" __global__ void to_buckets(const float* g, const u32* buckets, float* out, u64 rows, u64 heads, u64 span) {
    u64 i = u64(blockIdx.x) * (blockDim.x / WARP) + warp();
    if (i >= rows * heads) return;
    g += i % heads * span;
    float total = 0.0f;
    for (u64 j = lane(); j < span; j += WARP)
        if (buckets[j] == i / heads) total += g[j];
    total = warp_reduce<Sum>(total);
    if (lane() == 0) out[i] = total;
}
