// The profile of GPUs: what is measured arrives in the cluster file, and the planner reads it. The
// rates themselves mean nothing here.
#include "engine/train/gpu_profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cost_model/spec/spec_json.h"
#include "tests/cuda_emulation/scopes.h"

namespace tessera::engine {
namespace {

// A device that was measured by hand.
GpuProbe HandProbe() {
  GpuProbe probe;
  probe.info = {.name = "card", .num_devices = 1, .memory_bytes = 1000, .used_bytes = 10};
  probe.bf16.matmul_flops_per_s = {{.size = 1e6, .rate = 2e12}, {.size = 1e9, .rate = 8e12}};
  probe.bf16.attention_flops_per_s = {{.size = 1e7, .rate = 4e12}};
  probe.bf16.pass_bytes_per_s = {{.size = 1e4, .rate = 4e11}, {.size = 1e8, .rate = 2e11}};
  probe.bf16.op_overhead_s = 2e-6;
  probe.fp32.matmul_flops_per_s = {{.size = 1e9, .rate = 1e12}};
  probe.host_link = {.bandwidth_bytes_per_s = 5e10, .latency_s = 1e-5};
  return probe;
}

TEST(GpuProfileTest, RatesBecomeAPeakAndSharesOfIt) {
  const spec::ClusterSpec cluster = DescribeGpus("here", HandProbe());
  EXPECT_EQ(cluster.device.name, "card");
  EXPECT_EQ(cluster.device.peak_flops_per_s.at(base::DType::kBFloat16), 8e12);
  EXPECT_EQ(cluster.device.peak_flops_per_s.at(base::DType::kFloat32), 1e12);
  ASSERT_EQ(cluster.device.matmul_efficiency.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster.device.matmul_efficiency[0].efficiency, 0.25);
  EXPECT_DOUBLE_EQ(cluster.device.attention_efficiency[0].efficiency, 0.5);
  EXPECT_EQ(cluster.device.memory_bandwidth_bytes_per_s, 4e11);
  EXPECT_DOUBLE_EQ(cluster.device.memory_efficiency[1].efficiency, 0.5);
  EXPECT_EQ(cluster.device.reserved_memory_bytes, 10);
  EXPECT_EQ(cluster.shared_compute_units, 0);
}

TEST(GpuProfileTest, OneGpuIsLinkedThroughTheHostAndSeveralByNccl) {
  GpuProbe probe = HandProbe();
  EXPECT_EQ(DescribeGpus("here", probe).intra_node.bandwidth_bytes_per_s, 5e10);
  probe.info.num_devices = 4;
  probe.link = {.num_ranks = 4, .all_reduce_latency_s = 3e-5, .bandwidth_bytes_per_s = 3e11};
  const spec::ClusterSpec cluster = DescribeGpus("here", probe);
  EXPECT_EQ(cluster.devices_per_node, 4);
  EXPECT_EQ(cluster.intra_node.bandwidth_bytes_per_s, 3e11);
  EXPECT_DOUBLE_EQ(cluster.intra_node.latency_s, 5e-6);  // six steps of a ring
}

TEST(GpuProfileTest, EverySizeIsMeasuredAndTheFileIsRead) {
  const cuda_emulation::Scope devices = cuda_emulation::WithDeviceCount(2);
  const GpuProbe probe = ProbeGpus({.kernels = {.matmul = {16, 48},
                                                .attention = {16, 32},
                                                .pass = {4096, 16384},
                                                .num_repetitions = 1,
                                                .num_small_operations = 3},
                                    .num_link_elements = 1000});
  EXPECT_EQ(probe.info.num_devices, 2);
  EXPECT_EQ(probe.link.num_ranks, 2);
  EXPECT_GT(probe.info.memory_bytes, probe.info.used_bytes);
  ASSERT_EQ(probe.bf16.matmul_flops_per_s.size(), 2U);
  EXPECT_EQ(probe.bf16.matmul_flops_per_s[1].size, 2.0 * 48 * 48 * 48);
  EXPECT_EQ(probe.bf16.attention_flops_per_s[0].size, 3.5 * 2048 * 16 * 16);
  EXPECT_EQ(probe.bf16.pass_bytes_per_s[1].size, 3.0 * 2 * 16384);
  EXPECT_EQ(probe.fp32.matmul_flops_per_s.size(), 2U);

  const auto path = std::filesystem::temp_directory_path() /
                    ("tessera_gpu_profile_test_" + std::to_string(getpid()) + ".json");
  const spec::ClusterSpec cluster = DescribeGpus("here", probe);
  std::ofstream(path) << spec::WriteCluster(cluster);
  EXPECT_EQ(spec::LoadCluster(path.string()), cluster);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::engine
