// An LSTM over whole sequences, forward and backward, in one launch each.
//
//   i, f, g, o = σ, σ, tanh, σ of (x·Wᵢ + b + h·Wₕ)      c ← f∘c + i∘g      h = o∘tanh(c)
//
// Time goes in order, but sequences and directions are independent: a block takes R sequences of one direction through all
// their steps. `before` holds x·Wᵢ + b of all steps, computed at once. What a step needs of other threads is in shared
// memory. With HELD, so are the recurrent weights: a thread has its first 60 in registers and the others in shared
// memory (up to 128 units), so that a step reads no weight from beyond the processor. Otherwise they come from the cache.

#include "functions.cuh"

constexpr u32 IN_REGISTERS = 60;

struct Sizes {
    u32 batch, time, hidden, directions;
    const u32* lengths; // steps that are not padding, for each sequence; null: all
};

// The sequences of a block, and where they are at a step.
template <int R> struct Sequences {
    u32 first, direction, longest = 0;
    u32* length; // R of them in shared memory, where any thread can look up any
    const Sizes& sizes;

    __device__ Sequences(const Sizes& s, u32* room) : first(blockIdx.x * R), direction(blockIdx.y), length(room), sizes(s) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            u32 steps = first + r >= s.batch ? 0 : s.lengths ? s.lengths[first + r] : s.time;
            if (threadIdx.x == 0) length[r] = steps;
            longest = max(longest, steps);
        }
    }

    // The row of (batch, time) that sequence r reads at a step; the second direction starts at the last real one.
    __device__ u64 row(int r, u32 step) const {
        return u64(first + r) * sizes.time + (direction ? length[r] - 1 - step : step);
    }

    // The same among the rows of both directions.
    __device__ u64 row_of_direction(int r, u32 step) const {
        return u64(direction) * sizes.batch * sizes.time + row(r, step);
    }
};

// Sums of `terms` products with one weight for each term, for R rows of values: the first weights are in registers,
// the others in shared memory, one row of `threads` for each term.
template <bool HELD, int R> struct Weights {
    float in_registers[HELD ? IN_REGISTERS : 1];
    float* others;
    u32 threads;

    // `weight(i)` is the thread's weight of term i.
    template <typename W> __device__ void load(float* room, u32 terms, bool used, W weight) {
        others = room + threadIdx.x;
        threads = blockDim.x;
        if constexpr (HELD) {
#pragma unroll
            for (u32 i = 0; i < IN_REGISTERS; i++) in_registers[i] = used && i < terms ? weight(i) : 0.0f;
            for (u32 i = IN_REGISTERS; i < terms; i++) others[(i - IN_REGISTERS) * threads] = used ? weight(i) : 0.0f;
        }
    }

    // sum[r] += Σ weight(i)·values[r·stride + i]. With HELD, terms come in fours.
    template <typename W>
    __device__ void add(float (&sum)[R], const float* values, u32 stride, u32 terms, W weight) const {
        if constexpr (HELD) {
#pragma unroll
            for (u32 i = 0; i < IN_REGISTERS; i += 4) {
                if (i >= terms) break;
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float4 x = *reinterpret_cast<const float4*>(values + r * stride + i);
                    sum[r] += in_registers[i] * x.x + in_registers[i + 1] * x.y + in_registers[i + 2] * x.z +
                              in_registers[i + 3] * x.w;
                }
            }
#pragma unroll 4
            for (u32 i = IN_REGISTERS; i < terms; i += 4) {
                const float* w = others + (i - IN_REGISTERS) * threads;
                float a = w[0], b = w[threads], c = w[2 * threads], d = w[3 * threads];
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float4 x = *reinterpret_cast<const float4*>(values + r * stride + i);
                    sum[r] += a * x.x + b * x.y + c * x.z + d * x.w;
                }
            }
        } else {
#pragma unroll 4
            for (u32 i = 0; i < terms; i++) {
                float w = weight(i);
#pragma unroll
                for (int r = 0; r < R; r++) sum[r] += w * values[r * stride + i];
            }
        }
    }
};

// Weights are (4·hidden, hidden) if HELD, else (hidden, 4·hidden). Shared memory: hidden states and cells (R, hidden), gates
// (R, 4·hidden), then weights. `gates` keeps the gates of all steps and `cells` the cells, for the backward pass.
template <typename T, bool HELD, int R>
__device__ void forward(const float* before, const T* weight0, const T* weight1, T* out, float* gates, float* cells,
                        const Sizes& s) {
    extern __shared__ float4 memory[];
    const u32 H = s.hidden, G = 4 * H;
    float* h = reinterpret_cast<float*>(memory);
    float *c = h + R * H, *gate = c + R * H;
    const T* weight = blockIdx.y ? weight1 : weight0;
    __shared__ u32 lengths[R];
    const Sequences<R> at(s, lengths);
    Weights<HELD, R> held;
    auto of = [&](u32 j) {
        const T* start = weight + (HELD ? j * H : j);
        return [=](u32 k) { return to_float(start[HELD ? k : k * G]); };
    };
    held.load(gate + R * G, H, threadIdx.x < G, of(threadIdx.x));
    for (u32 i = threadIdx.x; i < R * H; i += blockDim.x) h[i] = c[i] = 0.0f;
    __syncthreads();
    for (u32 step = 0; step < at.longest; step++) {
        for (u32 j = threadIdx.x; j < G; j += blockDim.x) {
            float sum[R];
#pragma unroll
            for (int r = 0; r < R; r++)
                sum[r] = step < at.length[r] ? before[at.row_of_direction(r, step) * G + j] : 0.0f;
            held.add(sum, h, H, H, of(j));
#pragma unroll
            for (int r = 0; r < R; r++) {
                float value = j / H == 2 ? tanhf(sum[r]) : sigmoid_of<Exact>(sum[r]);
                gate[r * G + j] = value;
                if (step < at.length[r]) gates[at.row_of_direction(r, step) * G + j] = value;
            }
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < R * H; i += blockDim.x) {
            u32 r = i / H, unit = i % H;
            if (step >= at.length[r]) continue;
            const float* g = gate + r * G + unit;
            c[i] = g[H] * c[i] + g[0] * g[2 * H];
            h[i] = g[3 * H] * tanhf(c[i]);
            cells[at.row_of_direction(r, step) * H + unit] = c[i];
            out[(at.row(r, step) * s.directions + at.direction) * H + unit] = from_float<T>(h[i]);
        }
        __syncthreads();
    }
}

// From the gradient of the output: that of what was before the gates, and each step's earlier hidden state, both as
// (directions, batch, time, …). Padding keeps what was there. Shared memory: gradients of gates (R, 4·hidden), of hidden
// states and cells (R, hidden), parts of sums (4, R, hidden), then weights.
template <typename T, bool HELD, int R>
__device__ void backward(const T* upstream, const T* weight0, const T* weight1, const T* out, const float* gates,
                         const float* cells, T* before, T* earlier, const Sizes& s) {
    extern __shared__ float4 memory[];
    const u32 H = s.hidden, G = 4 * H;
    float* d = reinterpret_cast<float*>(memory);
    float *dh = d + R * G, *dc = dh + R * H, *parts = dc + R * H;
    const T* weight = blockIdx.y ? weight1 : weight0;
    __shared__ u32 lengths[R];
    const Sequences<R> at(s, lengths);
    Weights<HELD, R> held;
    // Thread (gate, unit) sums over the gate's part of the gradient: Σ d[gate·H + i]·W[gate·H + i][unit].
    auto of = [&](u32 j) {
        const T* start = weight + u64(j / H) * H * H + j % H;
        return [=](u32 i) { return to_float(start[u64(i) * H]); };
    };
    held.load(parts + R * G, H, threadIdx.x < G, of(threadIdx.x));
    for (u32 i = threadIdx.x; i < R * H; i += blockDim.x) dh[i] = dc[i] = 0.0f;
    for (u32 i = threadIdx.x; i < R * G; i += blockDim.x) d[i] = 0.0f;
    __syncthreads();
    for (u32 step = at.longest; step-- > 0;) {
        for (u32 i = threadIdx.x; i < R * H; i += blockDim.x) {
            u32 r = i / H, unit = i % H;
            if (step >= at.length[r]) continue;
            u64 row = at.row_of_direction(r, step), place = (at.row(r, step) * s.directions + at.direction) * H + unit;
            const float* gate = gates + row * G + unit;
            float in = gate[0], forget = gate[H], new_value = gate[2 * H], open = gate[3 * H];
            float cell_before = 0.0f, hidden_before = 0.0f;
            if (step > 0) {
                cell_before = cells[at.row_of_direction(r, step - 1) * H + unit];
                u64 earlier_row = at.row(r, step - 1) * s.directions + at.direction;
                hidden_before = to_float(out[earlier_row * H + unit]);
            }
            float bent = tanhf(cells[row * H + unit]), gradient = dh[i] + to_float(upstream[place]);
            float cell = dc[i] + gradient * open * (1.0f - bent * bent);
            float changes[4] = {cell * new_value * in * (1.0f - in), cell * cell_before * forget * (1.0f - forget),
                                cell * in * (1.0f - new_value * new_value), gradient * bent * open * (1.0f - open)};
            dc[i] = cell * forget;
            for (int q = 0; q < 4; q++) {
                d[r * G + q * H + unit] = changes[q];
                before[row * G + q * H + unit] = from_float<T>(changes[q]);
            }
            earlier[row * H + unit] = from_float<T>(hidden_before);
        }
        __syncthreads();
        for (u32 j = threadIdx.x; j < G; j += blockDim.x) {
            float sum[R] = {};
            held.add(sum, d + j / H * H, G, H, of(j));
#pragma unroll
            for (int r = 0; r < R; r++) parts[(j / H * R + r) * H + j % H] = sum[r];
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < R * H; i += blockDim.x)
            dh[i] = (parts[i] + parts[R * H + i]) + (parts[2 * R * H + i] + parts[3 * R * H + i]);
        // A sequence that is shorter has no gradients yet: its d stays 0.
    }
}

#define KERNELS(name, T, HELD, R)                                                                                    \
    extern "C" __global__ void __launch_bounds__(512)                                                                \
        forward_##name##_##R(const float* before, const T* weight0, const T* weight1, T* out, float* gates,          \
                             float* cells, u32 batch, u32 time, u32 hidden, u32 directions, const u32* lengths) {    \
        forward<T, HELD, R>(before, weight0, weight1, out, gates, cells, {batch, time, hidden, directions, lengths}); \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(512)                                                                \
        backward_##name##_##R(const T* upstream, const T* weight0, const T* weight1, const T* out,                   \
                              const float* gates, const float* cells, T* before, T* earlier, u32 batch, u32 time,    \
                              u32 hidden, u32 directions, const u32* lengths) {                                      \
        backward<T, HELD, R>(upstream, weight0, weight1, out, gates, cells, before, earlier,                         \
                             {batch, time, hidden, directions, lengths});                                            \
    }

#define SEQUENCES(name, T, HELD)                                                                                     \
    KERNELS(name, T, HELD, 1)                                                                                        \
    KERNELS(name, T, HELD, 4)

SEQUENCES(f32_held, float, true)
SEQUENCES(f32_streamed, float, false)
SEQUENCES(bf16_held, bf16, true)
SEQUENCES(bf16_streamed, bf16, false)
