// What the backward pass needs before it starts, and the gradient of the sinks.
//
//     attention_delta           log-sum-exp and delta = Σ output·upstream of each query, to `saved_rows`, and zeros to `turns`. A few lanes for each query, each with 16
//                               bytes of it at a time; a warp where rows are no multiples of that. Grid (tiles of padded queries, heads, batch).
//     attention_sink_gradient   −Σ P_sink·delta over examples and queries (the sink's value is 0). Grid (heads), 256 threads, 2 KiB of shared memory.
#include "problem.cuh"

constexpr int VECTOR = 16 / sizeof(Element), VECTORS = value_width / VECTOR;
/// Lanes that share a query, and how many queries a warp has.
constexpr bool whole_vectors = value_width % VECTOR == 0 && VECTORS > 0 && VECTORS <= 32 && (VECTORS & (VECTORS - 1)) == 0;
constexpr int LANES = whole_vectors ? VECTORS : 32, QUERIES = 32 / LANES;

/// For the host: threads, shared memory, and queries of a thread block.
extern "C" __device__ int attention_delta_launch[3] = {256, 0, 8 * QUERIES};

struct __align__(16) Piece { Element at[VECTOR]; };

__device__ inline float product(const Element* a, const Element* b, int lane) {
    float sum = 0.0f;
    if (whole_vectors && ((size_t(a) | size_t(b)) & 15) == 0) {
        Piece x, y;
        *(uint4*)&x = ((const uint4*)a)[lane];
        *(uint4*)&y = ((const uint4*)b)[lane];
#pragma unroll
        for (int i = 0; i < VECTOR; i++) sum += to_float(x.at[i]) * to_float(y.at[i]);
    } else {
        for (int feature = lane; feature < value_width; feature += LANES) sum += to_float(a[feature]) * to_float(b[feature]);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) attention_delta(const __grid_constant__ Problem p) {
    const int lane = threadIdx.x % LANES, head = blockIdx.y, example = blockIdx.z;
    const int query = (blockIdx.x * 8 + threadIdx.x / 32) * QUERIES + threadIdx.x % 32 / LANES;
    SavedRow row = {positive_infinity(), 0.0f};
    if (query < p.queries) {
        row.delta = product(p.output.at(example, head, query), p.upstream.at(example, head, query), lane);
        const float lse = p.log_sum_exp[p.row(example, head, query)];
        if (lse > negative_infinity()) row.lse = lse * LOG2_E;
    }
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) row.delta += __shfl_xor_sync(0xffffffff, row.delta, distance);
    if (lane == 0 && query < p.padded_queries()) {
        *p.saved_row(example, head, query) = row;
        if (p.turns && query % 32 == 0) *p.turn(example, head, query) = 0;
    }
}

#if SINK
extern "C" __global__ void __launch_bounds__(256) attention_sink_gradient(const __grid_constant__ Problem p) {
    extern __shared__ float4 shared_memory[];
    double* sums = (double*)shared_memory;
    const int head = blockIdx.x;
    const float sink = p.sink[head] * LOG2_E;
    double sum = 0.0;
    for (int i = threadIdx.x; i < p.batch * p.queries; i += 256) {
        const SavedRow row = *p.saved_row(i / p.queries, head, i % p.queries);
        sum -= exp2f(sink - row.lse) * row.delta;
    }
    sums[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) p.sink_gradient[head] = float(sums[0]);
}
#endif
