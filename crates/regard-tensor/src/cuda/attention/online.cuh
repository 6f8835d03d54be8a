// The online softmax of the bf16 forward pass, in a warp's registers.
#pragma once
#include "scores.cuh"

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
        float rescale[row_tiles][2];
        if (weigh_apart(scores, rescale)) scale_output(rescale, output);
    }

    /// The same, but leaves the output to be rescaled by the caller. Returns whether it must be; all lanes of a warp agree.
    template <int columns>
    __device__ bool weigh_apart(Sums<row_tiles, columns>& scores, float (&rescale)[row_tiles][2]) {
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
        const bool raised = __any_sync(0xffffffff, grown);
        if (raised) raise(most, rescale);
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float shift = max[r][half] == negative_infinity() ? 0.0f : scaled_max(r, half);
#pragma unroll
                for (int c = 0; c < columns / 8; c++)
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; e++) {
                        scores.at[r][c][e] = exp2_fast(scores.at[r][c][e] * factor - shift);
                        sum[r][half] += scores.at[r][c][e];
                    }
            }
        return raised;
    }

    /// The maximum in units of log₂. Rounded up: product·factor − this is one multiply-add with no rounding in between, and must not exceed 0
    /// where the score is the maximum.
    __device__ float scaled_max(int r, int half) const { return __fmul_ru(max[r][half], factor); }

    /// Takes over the new maxima of all rows, rescales the sums and says what outputs must be multiplied with.
    __device__ void raise(const float (&most)[row_tiles][2], float (&rescale)[row_tiles][2]) {
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float raised = fmaxf(max[r][half], quad_max(most[r][half]));
                rescale[r][half] = max[r][half] == negative_infinity() ? 0.0f : exp2_fast((max[r][half] - raised) * factor);
                max[r][half] = raised;
                sum[r][half] *= rescale[r][half];
            }
    }

    template <int features>
    __device__ void scale_output(const float (&by)[row_tiles][2], Sums<row_tiles, features>& output) {
        for_each(output, [&](int r, int c, int e) { output.at[r][c][e] *= by[r][e / 2]; });
    }

    /// Lets the sink take its share, writes the log-sum-exp of the rows from `query` on and divides the output by the sums.
    template <int features>
    __device__ void finish(const Problem& p, int example, int head, int query, Sums<row_tiles, features>& output) {
        float shares[row_tiles][2];
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float total = quad_sum(sum[r][half]), most = scaled_max(r, half), rescale = 1.0f;
                if (has_sink) {
                    const float sink = p.sink[head] * LOG2_E, raised = fmaxf(fmaxf(most, sink), -1e30f);
                    rescale = exp2_fast(most - raised);
                    total = total * rescale + exp2_fast(sink - raised);
                    most = raised;
                }
                const int row = query + sums_row(r, 2 * half);
                if (threadIdx.x % 4 == 0 && row < p.queries)
                    p.log_sum_exp[p.row(example, head, row)] = total > 0.0f ? (most + log2f(total)) * LN_2 : negative_infinity();
                if (has_dropout) rescale *= p.dropout.scale;
                shares[r][half] = total > 0.0f ? rescale / total : 0.0f;
            }
        scale_output(shares, output);
    }
};
