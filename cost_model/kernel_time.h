// What an operation costs: seconds on the device, and the kernels that the host has to launch.
#pragma once

#include "cost_model/rank_device.h"

namespace tessera::cost_model {

struct KernelTime {
  double device_s = 0;
  double num_kernels = 0;

  KernelTime& operator+=(const KernelTime& other) {
    device_s += other.device_s;
    num_kernels += other.num_kernels;
    return *this;
  }
};

// Kernels that only move `bytes` through device memory, in equal parts, one after the other.
KernelTime StreamTime(double bytes, double num_kernels, const RankDevice& device);

// Seconds that `bytes` take in one kernel, its launch apart.
double StreamSeconds(double bytes, const RankDevice& device);

}  // namespace tessera::cost_model
