// The instructions that C++ has no words for: tensor core products, their loads, asynchronous copies. Everything here exists from sm_80 on.
#pragma once
#include "problem.cuh"

/// An address in shared memory as instructions take it.
__device__ inline u32 shared_address(const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); }

/// Starts a copy of 16 bytes from global to shared memory; zeros if not `inside`.
__device__ inline void copy_async(u32 to, const void* from, bool inside) {
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
/// Closes a group of copies.
__device__ inline void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `groups` groups of this thread's copies are under way.
template <int groups>
__device__ inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
/// Waits until all of this thread's copies are done, also those in no group: without a tile, none is closed.
__device__ inline void copy_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Four 8×8 matrices of bf16. Lane l names row l % 8 of matrix l / 8, and gets elements 2·(l % 4), + 1 of row l / 4 of each.
__device__ inline void load_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
/// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

/// C (16×8, f32) += A (16×16) · B (16×8), in bf16.
__device__ inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two floats as bf16, `low` in the lower half.
__device__ inline u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/// 2^x to about 2 units in the last place; 0 for −∞. Results below 2⁻¹²⁶ become 0.
__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline void store_shared(u32 address, u32 value) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ inline void store_shared(u32 address, const float (&v)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
}
__device__ inline uint4 load_shared(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}
