// Arrays walked along several axes.

#pragma once

#include "values.cuh"

constexpr int MOST_AXES = 6;

// Lengths of the axes, the last one innermost, and how far two arrays move along each. The same layout as `Axes` in
// axes.rs.
struct Axes {
    u32 count;
    u32 lengths[MOST_AXES];
    u64 first[MOST_AXES];
    u64 second[MOST_AXES];
};

struct Offsets {
    u64 first, second;
};

// Where both arrays stand at element `index` of the axes.
__device__ inline Offsets offsets(const Axes& axes, u32 index) {
    Offsets at = {0, 0};
#pragma unroll
    for (int axis = MOST_AXES - 1; axis >= 0; axis--) {
        if (axis >= axes.count) continue;
        u32 position = index % axes.lengths[axis];
        index /= axes.lengths[axis];
        at.first += position * axes.first[axis];
        at.second += position * axes.second[axis];
    }
    return at;
}
