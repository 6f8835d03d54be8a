// Attention of one new token a text over a cache with room. How many keys there are stands in memory, so that a recorded
// step can be replayed for the next token.
//
// A thread block takes one key-value head of one text and a run of keys; the block whose run has the new token's place
// writes its key and value there. Blocks beyond it have nothing to do. Runs are joined in their order by a second
// kernel, so results do not depend on which block ends first. Keys and values of earlier tokens are read ahead, before the
// kernels that compute the new ones have ended.

#include "block.cuh"

constexpr u32 MOST_RUN = 64, THREADS = 128, MOST_WIDTH = 256, AHEAD = 4;

struct Sizes {
    u32 heads, kv_heads, room, width;
    float scale, cap; // no cap: 0
};

// A run's result for one query head: width sums, the largest score, the sum of weights.
__device__ float* part_of(float* parts, const Sizes& s, u32 text, u32 head, u32 run, u32 runs) {
    return parts + ((u64(text) * s.heads + head) * runs + run) * (s.width + 2);
}

// Lanes that read one row: a power of two, so that rows fill a warp.
__device__ u32 lanes_of(u32 vectors) {
    u32 lanes = 1;
    while (lanes < vectors && lanes < WARP) lanes *= 2;
    return lanes;
}

// Keys of a run: as many as a block asks for before it waits for the first, AHEAD for each thread.
__device__ u32 run_of(u32 lanes) { return min(MOST_RUN, THREADS / lanes * AHEAD); }

template <typename T>
__device__ void attend_run(const T* query, const T* key, const T* value, T* keys, T* values, const u32* at, float* parts, const Sizes& s) {
    constexpr u32 N = Vector<T>::N;
    __shared__ float q[MOST_WIDTH], scores[MOST_RUN], sums[THREADS * N];
    u32 text = blockIdx.x / s.kv_heads, group = blockIdx.x % s.kv_heads;
    u32 vectors = s.width / N, lanes = lanes_of(vectors), run = run_of(lanes);
    let_next_begin();
    u32 last = at[text], first = blockIdx.y * run;
    if (first > last) return;
    u32 count = min(run, last + 1 - first);
    u64 row = u64(s.kv_heads) * s.width, start = (u64(text) * s.room * s.kv_heads + group) * s.width;
    const T* run_keys = keys + start + first * row;
    const T* run_values = values + start + first * row;
    u32 of_row = threadIdx.x % lanes, rows_at_once = THREADS / lanes, my_row = threadIdx.x / lanes;
    // The first vector of each of this thread's rows; wider heads have more, which are read when they are needed.
    Vector<T> k[AHEAD], v[AHEAD];
#pragma unroll
    for (u32 step = 0; step < AHEAD; step++) {
        u32 place = my_row + step * rows_at_once;
        if (place < count && first + place < last && of_row < vectors) {
            k[step] = load(run_keys + place * row + of_row * N);
            v[step] = load(run_values + place * row + of_row * N);
        }
    }
    wait_for_earlier();
    if (last < first + run) {
        u64 from = (u64(text) * s.kv_heads + group) * s.width, to = start + last * row;
        for (u32 i = threadIdx.x; i < vectors; i += THREADS) {
            store(keys + to + i * N, load(key + from + i * N));
            store(values + to + i * N, load(value + from + i * N));
        }
#pragma unroll
        for (u32 step = 0; step < AHEAD; step++)
            if (first + my_row + step * rows_at_once == last && of_row < vectors) {
                k[step] = load(key + from + of_row * N);
                v[step] = load(value + from + of_row * N);
            }
        __syncthreads(); // wider heads read the rest from the cache
    }
    u32 shared_by = s.heads / s.kv_heads;
    for (u32 member = 0; member < shared_by; member++) {
        u32 head = group * shared_by + member;
        const T* my_query = query + (u64(text) * s.heads + head) * s.width;
        for (u32 i = threadIdx.x; i < s.width; i += THREADS) q[i] = to_float(my_query[i]);
        __syncthreads();
#pragma unroll
        for (u32 step = 0; step < AHEAD; step++) {
            u32 place = my_row + step * rows_at_once;
            float dot = 0.0f;
            if (place < count)
                for (u32 i = of_row; i < vectors; i += lanes) {
                    Vector<T> w = i == of_row ? k[step] : load(run_keys + place * row + i * N);
#pragma unroll
                    for (u32 j = 0; j < N; j++) dot = fmaf(q[i * N + j], w[j], dot);
                }
            for (u32 other = lanes / 2; other > 0; other /= 2) dot += __shfl_xor_sync(~0u, dot, other);
            if (of_row == 0 && place < count) {
                dot *= s.scale;
                scores[place] = s.cap > 0.0f ? s.cap * tanhf(dot / s.cap) : dot;
            }
        }
        __syncthreads();
        // Every warp computes the same maximum and sum of weights.
        float mine[2], most = -infinity(), total = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 place = lane() + i * WARP;
            mine[i] = place < count ? scores[place] : -infinity();
            most = fmaxf(most, mine[i]);
        }
        most = warp_reduce<Max>(most);
#pragma unroll
        for (u32 i = 0; i < 2; i++) total += mine[i] = expf(mine[i] - most);
        total = warp_sum(total);
        float* part = part_of(parts, s, text, head, blockIdx.y, gridDim.y);
        // A lane has one vector of each row that it reads; wider heads come in rounds.
        for (u32 round = 0; round < vectors; round += lanes) {
            u32 i = round + of_row;
            float sum[N] = {};
            if (i < vectors)
#pragma unroll
                for (u32 step = 0; step < AHEAD; step++) {
                    u32 place = my_row + step * rows_at_once;
                    if (place >= count) continue;
                    Vector<T> w = round == 0 ? v[step] : load(run_values + place * row + i * N);
                    float weight = expf(scores[place] - most);
#pragma unroll
                    for (u32 j = 0; j < N; j++) sum[j] = fmaf(weight, w[j], sum[j]);
                }
#pragma unroll
            for (u32 j = 0; j < N; j++) sums[(my_row * lanes + of_row) * N + j] = sum[j];
            __syncthreads();
            u32 columns = min(lanes, vectors - round) * N;
            for (u32 column = threadIdx.x; column < columns; column += THREADS) {
                float all = 0.0f;
                for (u32 r = 0; r < min(rows_at_once, count); r++) all += sums[r * lanes * N + column];
                part[round * N + column] = all;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            part[s.width] = most;
            part[s.width + 1] = total;
        }
    }
}

// A thread a column, a block a query head.
template <typename T>
__device__ void join_runs(const float* parts, const u32* at, const float* sink, T* out, u32 heads, u32 runs, u32 width) {
    u32 run = run_of(lanes_of(width / Vector<T>::N));
    u32 text = blockIdx.x / heads, head = blockIdx.x % heads, count = at[text] / run + 1, column = threadIdx.x;
    const float* first = parts + u64(blockIdx.x) * runs * (width + 2);
    let_next_begin();
    wait_for_earlier();
    float most = sink ? sink[head] : -infinity();
    for (u32 r = 0; r < count; r++) most = fmaxf(most, first[u64(r) * (width + 2) + width]);
    float total = sink ? expf(sink[head] - most) : 0.0f, sum = 0.0f;
    for (u32 r = 0; r < count; r++) {
        const float* part = first + u64(r) * (width + 2);
        float share = expf(part[width] - most);
        total += share * part[width + 1];
        if (column < width) sum += share * part[column];
    }
    if (column < width) out[u64(blockIdx.x) * width + column] = from_float<T>(sum / total);
}

#define DECODE(name, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, 4)                                                         \
        runs_##name(const T* query, const T* key, const T* value, T* keys, T* values, const u32* at, float* parts,   \
                    u32 heads, u32 kv_heads, u32 room, u32 width, float scale, float cap) {                          \
        attend_run(query, key, value, keys, values, at, parts, {heads, kv_heads, room, width, scale, cap});          \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(MOST_WIDTH)                                                         \
        join_##name(const float* parts, const u32* at, const float* sink, T* out, u32 heads, u32 runs, u32 width) {  \
        join_runs(parts, at, sink, out, heads, runs, width);                                                         \
    }

DECODE(f32, float)
DECODE(bf16, bf16)
