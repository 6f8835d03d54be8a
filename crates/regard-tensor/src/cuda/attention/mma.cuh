// Products on the tensor cores: bf16 in, f32 sums (mma.sync.m16n8k16).
//
// Matrices in shared memory. A row of features is padded to a multiple of 64 (128 bytes) and cut into pieces of 16 bytes; piece c of row r lies
// at place c ^ (r % 8). The eight rows that an `ldmatrix` reads at once, and the pieces a warp writes, then fall into different banks.
// The products sum over features in steps of 16, so only the features up to the next multiple of 16 are ever read: those past the width are zeros.
//
// Results in registers. A warp owns `RowTiles` tiles of 16 rows. Lane l holds, of each 16×8 piece, row l / 4 (elements 0 and 1) and row l / 4 + 8
// (elements 2 and 3), columns 2·(l % 4) and + 1. Two neighbouring 16×8 pieces, packed to bf16, are exactly the left operand (16×16) of the next
// product: weights and slopes never leave the registers.
#pragma once
#include "pair.cuh"
#include "ptx.cuh"

constexpr int WARP = 32, WARPS = 4, THREADS = WARP * WARPS;

__device__ constexpr int round_up(int x, int multiple) { return (x + multiple - 1) / multiple * multiple; }

/// A matrix of `features` columns in shared memory.
template <int features_>
struct Matrix {
    static constexpr int features = features_, COLUMNS = round_up(features, 16), PIECES = COLUMNS / 8, ROW_BYTES = round_up(features, 64) * 2;
    u32 address;

    __device__ u32 at(int row, int piece) const { return address + row * ROW_BYTES + ((piece ^ (row & 7)) << 4); }
};

/// Starts copying `rows` rows, `row_stride` elements apart; rows from `inside` on and features past the width become zeros.
template <int rows, int features>
__device__ inline void copy_rows(Matrix<features> to, const Element* from, i64 row_stride, int inside) {
    constexpr int PIECES = Matrix<features>::PIECES;
#pragma unroll
    for (int i = 0; i < rows * PIECES; i += THREADS) {
        const int row = (i + threadIdx.x) / PIECES, piece = (i + threadIdx.x) % PIECES;
        if (rows * PIECES % THREADS != 0 && row >= rows) break;
        const bool valid = row < inside && piece * 8 < features;
        copy_async(to.at(row, piece), valid ? from + row * row_stride + piece * 8 : from, valid);
    }
}

/// Where a lane reads operands in a matrix. The lane's row within a tile decides its swizzle, so that a step along the features is one exclusive or.
template <int features>
struct Reader {
    u32 address, piece;

    /// Rows are those of the result (left operand), or of the sum (right operand of A·B, read transposed).
    __device__ static Reader across(Matrix<features> m) {
        const int lane = threadIdx.x % WARP;
        return {m.address + (lane & 15) * Matrix<features>::ROW_BYTES, u32((lane >> 4) ^ (lane & 7)) << 4};
    }
    /// Rows are the columns of the result: right operand of A·Bᵀ.
    __device__ static Reader along(Matrix<features> m) {
        const int lane = threadIdx.x % WARP;
        return {m.address + ((lane & 7) + (lane >> 4) * 8) * Matrix<features>::ROW_BYTES, u32((lane >> 3 & 1) ^ (lane & 7)) << 4};
    }
    /// The 16×16 piece at a row and a feature, both multiples of 16.
    __device__ u32 at(int row, int feature) const {
        return address + row * Matrix<features>::ROW_BYTES + (piece ^ (feature * 2));
    }
};

/// A warp's part of a result: `row_tiles`·16 rows, `columns` columns.
template <int row_tiles, int columns>
struct Sums {
    float at[row_tiles][columns / 8][4];

    __device__ void clear() {
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int c = 0; c < columns / 8; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) at[r][c][e] = 0.0f;
    }
};

/// The row of an element of `Sums` within the warp's rows, and its column.
__device__ inline int sums_row(int r, int e) { return r * 16 + threadIdx.x % WARP / 4 + (e >= 2 ? 8 : 0); }
__device__ inline int sums_column(int c, int e) { return c * 8 + threadIdx.x % 4 * 2 + (e & 1); }

/// c += A·Bᵀ: rows `row…` of A (the warp's) and rows `column…` of B, both in shared memory.
template <int row_tiles, int columns, int features>
__device__ inline void multiply_transposed(Sums<row_tiles, columns>& c, Reader<features> a, int row, Reader<features> b, int column) {
#pragma unroll
    for (int k = 0; k < Matrix<features>::COLUMNS; k += 16) {
        u32 left[row_tiles][4];
#pragma unroll
        for (int r = 0; r < row_tiles; r++) load_matrices(left[r], a.at(row + r * 16, k));
#pragma unroll
        for (int n = 0; n < columns / 16; n++) {
            u32 right[4];
            load_matrices(right, b.at(column + n * 16, k));
#pragma unroll
            for (int r = 0; r < row_tiles; r++) {
                mma(c.at[r][2 * n], left[r], right[0], right[1]);
                mma(c.at[r][2 * n + 1], left[r], right[2], right[3]);
            }
        }
    }
}

/// Keeps an element as it is, or takes a negative one, a weight that dropout removed, as 0.
template <bool weights>
__device__ inline float kept(float x) { return weights && has_dropout ? fmaxf(x, 0.0f) : x; }

/// c += A·B: A in registers (packed to bf16 here), rows `row…` of B in shared memory. `weights`: A may have been through `mark_dropped`.
template <bool weights, int row_tiles, int inner, int columns, int features>
__device__ inline void multiply(Sums<row_tiles, columns>& c, const Sums<row_tiles, inner>& a, Reader<features> b, int row) {
#pragma unroll
    for (int k = 0; k < inner / 16; k++) {
        u32 left[row_tiles][4];
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float(&x)[4] = a.at[r][2 * k + half];
                left[r][2 * half] = pack(kept<weights>(x[0]), kept<weights>(x[1]));
                left[r][2 * half + 1] = pack(kept<weights>(x[2]), kept<weights>(x[3]));
            }
#pragma unroll
        for (int n = 0; n < columns / 16; n++) {
            u32 right[4];
            load_matrices_transposed(right, b.at(row + k * 16, n * 16));
#pragma unroll
            for (int r = 0; r < row_tiles; r++) {
                mma(c.at[r][2 * n], left[r], right[0], right[1]);
                mma(c.at[r][2 * n + 1], left[r], right[2], right[3]);
            }
        }
    }
}

/// Writes a warp's rows to one head: through shared memory, so that global memory is written in pieces of 16 bytes. `rows` rows from `row` on of the
/// matrix are the warp's own; those from `inside` on are not written.
template <int row_tiles, int columns, typename M>
__device__ inline void write_rows(const Sums<row_tiles, columns>& sums, M through, int row, Element* to, i64 row_stride, int inside) {
    constexpr int PIECES = M::features / 8, ROWS = row_tiles * 16;
    const int lane = threadIdx.x % WARP;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < row_tiles; r++)
#pragma unroll
        for (int c = 0; c < columns / 8; c++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                store_shared(through.at(row + r * 16 + lane / 4 + half * 8, c) + lane % 4 * 4,
                             pack(sums.at[r][c][2 * half], sums.at[r][c][2 * half + 1]));
    __syncwarp();
#pragma unroll
    for (int i = lane; i < ROWS * PIECES; i += WARP) {
        const int r = row + i / PIECES, piece = i % PIECES;
        const uint4 value = load_shared(through.at(r, piece));
        if (r < inside) *(uint4*)(to + r * row_stride + piece * 8) = value;
    }
}
