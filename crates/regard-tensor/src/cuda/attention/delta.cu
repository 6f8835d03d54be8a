// What the backward pass needs before it starts, and the gradient of the sinks.
//
//     attention_delta           log-sum-exp and delta = Σ output·upstream of each query, to `saved_rows`. A warp for each query:
//                               grid (padded queries / 8, heads, batch), 256 threads.
//     attention_sink_gradient   −Σ P_sink·delta over examples and queries (the sink's value is 0). Grid (heads), 256 threads, 2 KiB of shared memory.
#include "problem.cuh"

extern "C" __global__ void __launch_bounds__(256) attention_delta(const __grid_constant__ Problem p) {
    const int query = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, example = blockIdx.z;
    SavedRow row = {positive_infinity(), 0.0f};
    if (query < p.queries) {
        const Element* output = p.output.at(example, head, query);
        const Element* upstream = p.upstream.at(example, head, query);
#pragma unroll
        for (int feature = lane; feature < value_width; feature += 32)
            row.delta += to_float(output[feature]) * to_float(upstream[feature]);
        const float lse = p.log_sum_exp[p.row(example, head, query)];
        if (lse > negative_infinity()) row.lse = lse * LOG2_E;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) row.delta += __shfl_xor_sync(0xffffffff, row.delta, distance);
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
