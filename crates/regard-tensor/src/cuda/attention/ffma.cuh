// Products of 64×64 tiles with ordinary float arithmetic (FFMA): exact to f32, for any width, on any device.
//
// A thread block is 16×16 threads. A tile of 64×64 floats lies in shared memory with rows 68 apart: 16-byte reads of neighbouring rows then
// fall into different banks. Wider matrices are taken in chunks of 64 features, so that shared memory (three tiles, 51 KiB) does not
// depend on the width. In a 64×64 result, thread (x, y) owns rows 4y…4y+3 and columns x, x+16, x+32, x+48: a row belongs to 16
// neighbouring lanes, which reduce it with four shuffles.
#pragma once
#include "pair.cuh"

constexpr int SIDE = 64, THREADS = 256, TILE_ROW = SIDE + 4;
constexpr int CHUNKS = (width + SIDE - 1) / SIDE, VALUE_CHUNKS = (value_width + SIDE - 1) / SIDE;

typedef float (*Tile)[TILE_ROW];
/// A thread's part of a 64×64 result.
typedef float Part[4][4];

__device__ inline int part_row(int i) { return threadIdx.x / 16 * 4 + i; }
__device__ inline int part_column(int j) { return threadIdx.x % 16 + 16 * j; }

/// For the host, with each kernel: threads, bytes of shared memory, and rows of a thread block.
#define LAUNCH(kernel) extern "C" __device__ int kernel##_launch[3] = {THREADS, 3 * SIDE * TILE_ROW * 4, SIDE}

/// Tile number `index` of the kernel's shared memory.
__device__ inline Tile shared_tile(int index) {
    extern __shared__ float4 shared_memory[];
    return (Tile)((float*)shared_memory + index * SIDE * TILE_ROW);
}

/// Reads rows `start..start + 64` of one head, features `64·chunk…`, with zeros past the last row and feature.
__device__ inline void load(Tile tile, const Heads& heads, int example, int head, int start, int rows, int chunk, int features) {
    const int column = threadIdx.x % SIDE, feature = chunk * SIDE + column;
    for (int row = threadIdx.x / SIDE; row < SIDE; row += THREADS / SIDE) {
        const bool inside = start + row < rows && feature < features;
        tile[row][column] = inside ? to_float(heads.at(example, head, start + row)[feature]) : 0.0f;
    }
}

/// c += A·Bᵀ, both with the summed dimension along their rows.
__device__ inline void multiply_transposed(Part& c, Tile a, Tile b) {
#pragma unroll 4
    for (int k = 0; k < SIDE; k += 4) {
        float4 x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = *(float4*)&a[part_row(i)][k];
            y[i] = *(float4*)&b[part_column(i)][k];
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                c[i][j] += x[i].x * y[j].x + x[i].y * y[j].y + x[i].z * y[j].z + x[i].w * y[j].w;
    }
}

/// c += A·B.
__device__ inline void multiply(Part& c, Tile a, Tile b) {
#pragma unroll 4
    for (int k = 0; k < SIDE; k += 4) {
        float4 x[4];
        float y[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = *(float4*)&a[part_row(i)][k];
#pragma unroll
            for (int j = 0; j < 4; j++) y[i][j] = b[k + i][part_column(j)];
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                c[i][j] += x[i].x * y[0][j] + x[i].y * y[1][j] + x[i].z * y[2][j] + x[i].w * y[3][j];
    }
}

__device__ inline void store(Tile tile, const Part& part) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) tile[part_row(i)][part_column(j)] = part[i][j];
}

/// Writes a chunk of a result to rows `start…` of one head.
__device__ inline void write(const Heads& heads, int example, int head, int start, int rows, int chunk, int features, const Part& part) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (start + part_row(i) >= rows) continue;
        Element* row = heads.at(example, head, start + part_row(i));
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int feature = chunk * SIDE + part_column(j);
            if (feature < features) row[feature] = to_element(part[i][j]);
        }
    }
}

/// A·Bᵀ of two matrices of `features` features, chunk by chunk: scores and their like. Ends with all threads past their reads.
struct Rows {
    const Heads& heads;
    int head, start, count;
};
__device__ inline void product(Part& c, int example, Rows a, Rows b, int features) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) c[i][j] = 0.0f;
    for (int chunk = 0; chunk * SIDE < features; chunk++) {
        load(shared_tile(0), a.heads, example, a.head, a.start, a.count, chunk, features);
        load(shared_tile(1), b.heads, example, b.head, b.start, b.count, chunk, features);
        __syncthreads();
        multiply_transposed(c, shared_tile(0), shared_tile(1));
        __syncthreads();
    }
}

/// sum += tile·rows: weights times values and their like. The tile goes to shared memory; rows of a head are read chunk by chunk.
template <int chunks>
__device__ inline void accumulate(Part (&sum)[chunks], const Part& tile, int example, Rows rows, int features) {
    const Tile kept = shared_tile(2), loaded = shared_tile(1);
    store(kept, tile);
#pragma unroll
    for (int chunk = 0; chunk < chunks; chunk++) {
        load(loaded, rows.heads, example, rows.head, rows.start, rows.count, chunk, features);
        __syncthreads();
        multiply(sum[chunk], kept, loaded);
        __syncthreads();
    }
}

/// The sum or maximum of a row over the 16 lanes that share it.
__device__ inline float row_sum(float x) {
#pragma unroll
    for (int lane = 8; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffff, x, lane);
    return x;
}
__device__ inline float row_max(float x) {
#pragma unroll
    for (int lane = 8; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, lane));
    return x;
}
