// Moves values between arrays that lie differently: permuted axes, parts of an axis, image patches.
//
// The host counts in units as large as both sides allow: 16 bytes where the innermost run of values permits it.

#include "axes.cuh"

template <typename Unit> __device__ void move(const Unit* from, Unit* to, const Axes& axes, u32 count) {
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    Offsets at = offsets(axes, index);
    to[at.second] = from[at.first];
}

#define MOVE(bytes)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        move_##bytes(const Wide<bytes>::T* from, Wide<bytes>::T* to, Axes axes, u32 count) {                         \
        move(from, to, axes, count);                                                                                 \
    }

MOVE(2)
MOVE(4)
MOVE(8)
MOVE(16)

// The last two axes of several matrices exchanged: (matrices, rows, columns) to (matrices, columns, rows), by tiles that
// are read along rows and written along columns.
constexpr int TILE = 32;

template <typename Unit> __device__ void transpose(const Unit* from, Unit* to, u32 rows, u32 columns) {
    __shared__ Unit tile[TILE][TILE + 1]; // one more, so that a column lies in different banks
    u32 tiles_across = (columns + TILE - 1) / TILE;
    u32 left = blockIdx.x % tiles_across * TILE, top = blockIdx.x / tiles_across * TILE;
    u64 start = u64(blockIdx.y) * rows * columns;
    u32 x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    for (u32 i = y; i < TILE; i += blockDim.x / TILE)
        if (top + i < rows && left + x < columns) tile[i][x] = from[start + u64(top + i) * columns + left + x];
    __syncthreads();
    for (u32 i = y; i < TILE; i += blockDim.x / TILE)
        if (left + i < columns && top + x < rows) to[start + u64(left + i) * rows + top + x] = tile[x][i];
}

#define TRANSPOSE(bytes)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256)                                                                \
        transpose_##bytes(const Wide<bytes>::T* from, Wide<bytes>::T* to, u32 rows, u32 columns) {                   \
        transpose(from, to, rows, columns);                                                                          \
    }

TRANSPOSE(2)
TRANSPOSE(4)
