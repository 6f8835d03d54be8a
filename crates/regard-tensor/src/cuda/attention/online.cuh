// From products to weights in a warp's registers: scale, soft cap, bias, masks, online softmax, dropout.
//
// Scores are in units of log₂, so that a weight is one exp2. Without bias and soft cap, products stay as they are and the scale becomes part
// of the exponent, weight = 2^(product·factor − maximum·factor): one multiply-add an element.
#pragma once
#include "mma.cuh"

constexpr bool plain_scores = !has_bias && !has_soft_cap;

/// What scores are multiplied with to be in units of log₂. Never 0, so that −∞ stays −∞. The sign of the scale is taken care of by `finish_scores`.
__device__ inline float score_factor(const Problem& p) { return plain_scores ? fmaxf(fabsf(p.scale) * LOG2_E, 1e-30f) : 1.0f; }

/// Applies `change(element, query, key)` to each score of a warp's tile.
template <int row_tiles, int columns, typename Change>
__device__ inline void for_each_pair(const TileAt& at, Sums<row_tiles, columns>& scores, Change change) {
#pragma unroll
    for (int r = 0; r < row_tiles; r++)
#pragma unroll
        for (int c = 0; c < columns / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                change(scores.at[r][c][e], at.query_start + sums_row(r, e), at.key_start + sums_column(c, e));
}

/// Products become scores (up to `score_factor`), −∞ where a pair may not attend.
template <int row_tiles, int columns>
__device__ inline void finish_scores(const Problem& p, const TileAt& at, Sums<row_tiles, columns>& scores) {
    if constexpr (!plain_scores) {
        for_each_pair(at, scores, [&](float& score, int query, int key) {
            float derivative;
            score = pair_score(p, at, query, key, score, derivative);
        });
    } else if (p.scale < 0.0f) {
        for_each_pair(at, scores, [](float& score, int, int) { score = -score; });
    }
    if (!all_allowed(p, at, columns)) {
        for_each_pair(at, scores, [&](float& score, int query, int key) {
            if (!allowed(p, at, query, key)) score = negative_infinity();
        });
    }
}

/// Multiplies each weight with its dropout factor. A Philox block has four neighbouring keys of a query, which belong to two neighbouring lanes;
/// these also share the query eight rows below. So each of the two draws one block and gives half of it to the other.
template <int row_tiles, int columns>
__device__ inline void drop(const Problem& p, const TileAt& at, Sums<row_tiles, columns>& weights) {
    const bool odd = threadIdx.x & 1;
#pragma unroll
    for (int r = 0; r < row_tiles; r++)
#pragma unroll
        for (int c = 0; c < columns / 8; c++) {
            const int query = at.query_start + sums_row(r, odd ? 2 : 0), key = at.key_start + sums_column(c, 0);
            const uint4 own = dropout_words(p, at, query, key / 4);
            const u32 given0 = __shfl_xor_sync(0xffffffff, odd ? own.x : own.z, 1);
            const u32 given1 = __shfl_xor_sync(0xffffffff, odd ? own.y : own.w, 1);
            float(&w)[4] = weights.at[r][c];
            w[0] *= dropout_factor(p, odd ? given0 : own.x);
            w[1] *= dropout_factor(p, odd ? given1 : own.y);
            w[2] *= dropout_factor(p, odd ? own.z : given0);
            w[3] *= dropout_factor(p, odd ? own.w : given1);
        }
}

/// A maximum may be this much (in log₂) behind before all that was summed under it is rescaled: weights of up to 2⁸ harm nothing, and most tiles
/// raise the maximum of some query a little.
constexpr float SLACK = 8.0f;

/// The sum or maximum of a row over the four lanes that share it.
__device__ inline float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}
__device__ inline float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

/// The state of the online softmax (Milakov & Gimelshein, 2018) of a warp's rows: maximum so far, up to `SLACK`, and each lane's part of the sum.
template <int row_tiles>
struct Online {
    float factor, max[row_tiles][2], sum[row_tiles][2];

    __device__ explicit Online(const Problem& p) : factor(score_factor(p)) {
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) max[r][half] = negative_infinity(), sum[r][half] = 0.0f;
    }

    /// Scores become weights relative to the maximum; what was summed under a much smaller maximum is rescaled.
    template <int columns, int features>
    __device__ void weigh(Sums<row_tiles, columns>& scores, Sums<row_tiles, features>& output) {
        float most[row_tiles][2];
        bool grown = false;
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float m = negative_infinity();
#pragma unroll
                for (int c = 0; c < columns / 8; c++) m = fmaxf(m, fmaxf(scores.at[r][c][2 * half], scores.at[r][c][2 * half + 1]));
                most[r][half] = m;
                // Not where nothing was allowed, neither before nor now: the difference is NaN.
                grown |= (m - max[r][half]) * factor > SLACK;
            }
        if (__any_sync(0xffffffff, grown)) raise(most, output);
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float shift = max[r][half] == negative_infinity() ? 0.0f : max[r][half] * factor;
#pragma unroll
                for (int c = 0; c < columns / 8; c++)
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; e++) {
                        scores.at[r][c][e] = exp2_fast(scores.at[r][c][e] * factor - shift);
                        sum[r][half] += scores.at[r][c][e];
                    }
            }
    }

    /// Takes over the new maxima of all rows, and rescales sums and output.
    template <int features>
    __device__ void raise(const float (&most)[row_tiles][2], Sums<row_tiles, features>& output) {
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float raised = fmaxf(max[r][half], quad_max(most[r][half]));
                const float rescale = max[r][half] == negative_infinity() ? 0.0f : exp2_fast((max[r][half] - raised) * factor);
                max[r][half] = raised;
                scale_row(r, half, rescale, output);
            }
    }

    template <int features>
    __device__ void scale_row(int r, int half, float by, Sums<row_tiles, features>& output) {
        sum[r][half] *= by;
#pragma unroll
        for (int c = 0; c < features / 8; c++) output.at[r][c][2 * half] *= by, output.at[r][c][2 * half + 1] *= by;
    }

    /// Lets the sink take its share, writes the log-sum-exp of the rows from `query` on and divides the output by the sums.
    template <int features>
    __device__ void finish(const Problem& p, int example, int head, int query, Sums<row_tiles, features>& output) {
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float total = quad_sum(sum[r][half]), most = max[r][half] * factor, rescale = 1.0f;
                if (has_sink) {
                    const float sink = p.sink[head] * LOG2_E, raised = fmaxf(fmaxf(most, sink), -1e30f);
                    rescale = exp2_fast(most - raised);
                    total = total * rescale + exp2_fast(sink - raised);
                    most = raised;
                }
                const int row = query + sums_row(r, 2 * half);
                if (threadIdx.x % 4 == 0 && row < p.queries)
                    p.log_sum_exp[p.row(example, head, row)] = total > 0.0f ? (most + log2f(total)) * LN_2 : negative_infinity();
                scale_row(r, half, total > 0.0f ? rescale / total : 0.0f, output);
            }
    }
};
