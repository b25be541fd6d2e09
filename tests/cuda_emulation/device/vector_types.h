// CUDA's vector types with its alignments, and the built-in variables of a running CUDA thread.
#pragma once

#include "tests/cuda_emulation/device/qualifiers.h"

struct alignas(8) float2 {
  float x, y;
};
struct float3 {
  float x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
constexpr int2 make_int2(int x, int y) { return {x, y}; }
constexpr int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
constexpr double2 make_double2(double x, double y) { return {x, y}; }

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  constexpr dim3(uint3 size) : x(size.x), y(size.y), z(size.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// Of the CUDA thread that runs on this operating-system thread; set by the emulation.
inline thread_local constinit uint3 threadIdx{0, 0, 0};
inline thread_local constinit uint3 blockIdx{0, 0, 0};
inline thread_local constinit dim3 blockDim{0, 0, 0};
inline thread_local constinit dim3 gridDim{0, 0, 0};
constexpr int warpSize = 32;
