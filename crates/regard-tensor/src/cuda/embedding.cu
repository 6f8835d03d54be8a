// Rows of a table by their ids, and the sums of gradients that go back to them.

#include "block.cuh"

// out[row] = table[ids[row]]. One warp a row.
template <typename From, typename To>
__device__ void lookup(const From* table, const u32* ids, To* out, u64 rows, u64 width) {
    u64 row = u64(blockIdx.x) * (blockDim.x / WARP) + warp();
    if (row >= rows) return;
    table += ids[row] * width;
    out += row * width;
    // Vectors of both types have to fit; the narrower type has more values in one.
    constexpr int N = Vector<To>::N;
    bool whole = aligned(table, out) && width % N == 0;
    for (u64 i = lane() * N; i < width; i += WARP * N) {
        if (whole) {
            Vector<To> v;
            for (int j = 0; j < N; j += Vector<From>::N) {
                Vector<From> part = load(table + i + j);
                for (int k = 0; k < Vector<From>::N; k++) v.set(j + k, part[k]);
            }
            store(out + i, v);
        } else {
            for (u64 j = i; j < i + N && j < width; j++) out[j] = from_float<To>(to_float(table[j]));
        }
    }
}

// The gradient. `order` lists the rows of g by ascending id, rows with one id in ascending order; `sorted` are their ids.
// Each block takes PIECE rows of that list and a run of columns, and adds up each stretch with one id. A stretch that
// begins and ends inside the piece is complete: its sum goes to the table. The first and the last stretch may go on in the
// pieces beside it: their sums go to `edges` (first, then last), which `join_edges` adds up in order.
constexpr int PIECE = 32;

// N columns of f32 sums.
template <int N> struct Total {
    float at[N];
    __device__ void clear() {
        for (int i = 0; i < N; i++) at[i] = 0.0f;
    }
    template <typename V> __device__ void add(const V& v) {
        for (int i = 0; i < N; i++) at[i] += v[i];
    }
    __device__ void write(float* to, u64 start, u64 end, bool add) const {
        for (int i = 0; i < N; i++)
            if (start + i < end) to[start + i] = at[i] + (add ? to[start + i] : 0.0f);
    }
};

template <typename T>
__device__ void sum_by_id(const T* g, const u32* order, const u32* sorted, float* table, float* edges, u64 rows,
                          u64 width, bool add) {
    constexpr int N = Vector<T>::N;
    u64 column = (u64(blockIdx.y) * blockDim.x + threadIdx.x) * N;
    if (column >= width) return;
    bool whole = aligned(g) && width % N == 0;
    u64 piece = blockIdx.x, start = piece * PIECE, end = min(start + PIECE, rows);
    float* first_edge = edges + (2 * piece) * width;
    float* last_edge = edges + (2 * piece + 1) * width;
    u32 first_id = sorted[start], last_id = sorted[end - 1];
    Total<N> total;
    total.clear();
    for (u64 i = start; i < end; i++) {
        total.add(load_some(g + order[i] * width, column, width, whole));
        u32 id = sorted[i];
        if (i + 1 < end && sorted[i + 1] == id) continue;
        if (id == first_id)
            total.write(first_edge, column, width, false);
        else if (id == last_id)
            total.write(last_edge, column, width, false);
        else
            total.write(table + id * width, column, width, add);
        total.clear();
    }
}

// Adds up stretches that touch the edge of a piece. The block of the piece in which a stretch begins writes it.
__device__ void join_edges(const u32* sorted, const float* edges, float* table, u64 rows, u64 width, bool add) {
    u64 column = u64(blockIdx.y) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    u64 piece = blockIdx.x, start = piece * PIECE, end = min(start + PIECE, rows);
    u32 first_id = sorted[start], last_id = sorted[end - 1];
    for (int which = 0; which < 2; which++) {
        u32 id = which == 0 ? first_id : last_id;
        if (which == 1 && last_id == first_id) break;
        if (which == 0 && piece > 0 && sorted[start - 1] == id) continue; // it began earlier
        float total = edges[(2 * piece + which) * width + column];
        // It goes on if it reaches the end of this piece and the next one begins with the same id.
        if (id == last_id)
            for (u64 next = piece + 1; next * PIECE < rows && sorted[next * PIECE] == id; next++)
                total += edges[2 * next * width + column];
        float* to = table + id * width + column;
        *to = total + (add ? *to : 0.0f);
    }
}

// table[rows[i]] += values[i]; no row is named twice.
__device__ void add_rows(float* table, const u32* rows, const float* values, u64 count, u64 width) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count * width) return;
    table[rows[i / width] * width + i % width] += values[i];
}

#define LOOKUP(name, From, To)                                                                                       \
    extern "C" __global__ void lookup_##name(const From* table, const u32* ids, To* out, u64 rows, u64 width) {      \
        lookup<From, To>(table, ids, out, rows, width);                                                              \
    }

LOOKUP(f32_f32, float, float)
LOOKUP(f32_bf16, float, bf16)
LOOKUP(bf16_bf16, bf16, bf16)

#define SUM_BY_ID(name, T)                                                                                           \
    extern "C" __global__ void sum_by_id_##name(const T* g, const u32* order, const u32* sorted, float* table,       \
                                                float* edges, u64 rows, u64 width, bool add) {                       \
        sum_by_id<T>(g, order, sorted, table, edges, rows, width, add);                                              \
    }

SUM_BY_ID(f32, float)
SUM_BY_ID(bf16, bf16)

extern "C" __global__ void join(const u32* sorted, const float* edges, float* table, u64 rows, u64 width, bool add) {
    join_edges(sorted, edges, table, rows, width, add);
}

extern "C" __global__ void add_rows_f32(float* table, const u32* rows, const float* values, u64 count, u64 width) {
    add_rows(table, rows, values, count, width);
}
