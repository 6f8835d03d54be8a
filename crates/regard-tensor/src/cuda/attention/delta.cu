// What the backward pass needs before it starts, and the gradient of the sinks.
//
//     attention_delta           delta = Σ output·upstream of each row. A warp for each row: grid (queries / 8, heads, batch), 256 threads.
//     attention_sink_gradient   −Σ P_sink·delta over examples and queries (the sink's value is 0). Grid (heads), 256 threads.
#include "problem.cuh"

extern "C" __global__ void __launch_bounds__(256) attention_delta(const __grid_constant__ Problem p) {
    const int query = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, example = blockIdx.z;
    if (query >= p.queries) return;
    const Element* output = p.output.at(example, head, query);
    const Element* upstream = p.upstream.at(example, head, query);
    float sum = 0.0f;
#pragma unroll
    for (int feature = lane; feature < value_width; feature += 32) sum += to_float(output[feature]) * to_float(upstream[feature]);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
    if (lane == 0) p.delta[p.row(example, head, query)] = sum;
}

#if SINK
extern "C" __global__ void __launch_bounds__(256) attention_sink_gradient(const __grid_constant__ Problem p) {
    extern __shared__ float4 shared_memory[];
    double* sums = (double*)shared_memory;
    const int head = blockIdx.x;
    const float sink = p.sink[head];
    double sum = 0.0;
    for (int i = threadIdx.x; i < p.batch * p.queries; i += 256) {
        const i64 row = p.row(i / p.queries, head, i % p.queries);
        // A sink of −∞ takes nothing, even where nothing else may be attended to.
        const float share = sink == negative_infinity() ? 0.0f : exp2f((sink - p.log_sum_exp[row]) * LOG2_E);
        sum -= share * p.delta[row];
    }
    sums[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) p.sink_gradient[head] = float(sums[0]);
}
#endif
