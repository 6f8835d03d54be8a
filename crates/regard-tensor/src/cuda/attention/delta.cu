// What the backward pass needs before it starts, and the gradient of the sinks.
//
//     attention_delta           log-sum-exp and delta = Σ output·upstream of each query, to `saved_rows`. Eight lanes for each query, which read 16 bytes
//                               at a time where rows allow it. Grid (padded queries / 32, heads, batch).
//     attention_sink_gradient   −Σ P_sink·delta over examples and queries (the sink's value is 0). Grid (heads), 256 threads, 2 KiB of shared memory.
#include "problem.cuh"

constexpr int THREADS = 256, LANES = 8, QUERIES = THREADS / LANES, PIECE = 16 / sizeof(Element);

/// For the host: threads, bytes of shared memory and queries of a thread block.
extern "C" __device__ int attention_delta_launch[3] = {THREADS, 0, QUERIES};

/// Up to 16 bytes of a row.
struct __align__(16) Piece { Element at[PIECE]; };

__device__ inline float dot(const Piece& a, const Piece& b) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < PIECE; i++) sum += to_float(a.at[i]) * to_float(b.at[i]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_delta(const __grid_constant__ Problem p) {
    const int query = blockIdx.x * QUERIES + threadIdx.x / LANES, lane = threadIdx.x % LANES, head = blockIdx.y, example = blockIdx.z;
    SavedRow row = {positive_infinity(), 0.0f};
    if (query < p.queries) {
        const Element* output = p.output.at(example, head, query);
        const Element* upstream = p.upstream.at(example, head, query);
        if (value_width % PIECE == 0 && ((u64)output % 16 | (u64)upstream % 16) == 0) {
#pragma unroll
            for (int feature = lane * PIECE; feature < value_width; feature += LANES * PIECE)
                row.delta += dot(*(const Piece*)(output + feature), *(const Piece*)(upstream + feature));
        } else {
            for (int feature = lane; feature < value_width; feature += LANES) row.delta += to_float(output[feature]) * to_float(upstream[feature]);
        }
        const float lse = p.log_sum_exp[p.row(example, head, query)];
        if (lse > negative_infinity()) row.lse = lse * LOG2_E;
    }
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) row.delta += __shfl_xor_sync(0xffffffff, row.delta, distance);
    if (lane == 0) *p.saved_row(example, head, query) = row;
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
