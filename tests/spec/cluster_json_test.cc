#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kCluster = R"({
  "name": "pair",
  "device": {
    "name": "chip",
    "memory_bytes": {"value": 8e9, "tag": "spec", "source": "data sheet"},
    "memory_bandwidth_bytes_per_s": 1e11,
    "peak_flops_per_s": {"fp32": {"value": 2e12, "tag": "measured", "source": "gemm"}},
    "matmul_efficiency_by_flops": {
      "value": [[1e6, 0.1], [1e9, 0.8]], "tag": "fitted", "source": "sweep"}
  },
  "devices_per_node": 2,
  "nics_per_node": 1,
  "intra_node": {"bandwidth_bytes_per_s": 5e10, "latency_s": 1e-6},
  "inter_node": {"bandwidth_bytes_per_s": 1e9, "latency_s": 1e-5}
})";

class ClusterJsonTest : public FileTest {
 protected:
  std::string ErrorAfter(const std::string& from, const std::string& to) const {
    const std::string path = Write("cluster.json", Replaced(kCluster, from, to));
    return ConfigErrorOf([&] { LoadCluster(path); });
  }
};

TEST_F(ClusterJsonTest, NumbersMayBeBareOrCarryTheirSource) {
  const ClusterSpec cluster = LoadCluster(Write("cluster.json", kCluster));
  EXPECT_EQ(cluster.device.memory_bytes, 8000000000);
  EXPECT_EQ(cluster.device.peak_flops_per_s.at(base::DType::kFloat32), 2e12);
  EXPECT_EQ(cluster.device.matmul_efficiency,
            (EfficiencyTable{{.size = 1e6, .efficiency = 0.1}, {.size = 1e9, .efficiency = 0.8}}));
  EXPECT_EQ(cluster.intra_node.efficiency, 1);
  const std::map<std::string, NumberSource> sources = {
      {"/device/memory_bytes", {"spec", "data sheet"}},
      {"/device/peak_flops_per_s/fp32", {"measured", "gemm"}},
      {"/device/matmul_efficiency_by_flops", {"fitted", "sweep"}}};
  EXPECT_EQ(cluster.sources, sources);
}

TEST_F(ClusterJsonTest, WhatIsWrittenReadsBack) {
  const ClusterSpec cluster = LoadCluster(Write("cluster.json", kCluster));
  EXPECT_EQ(LoadCluster(Write("again.json", WriteCluster(cluster))), cluster);
}

TEST_F(ClusterJsonTest, CollectivesAndFabricAreSections) {
  const std::string text =
      Replaced(kCluster, "\"nics_per_node\": 1,",
               R"("nics_per_node": 1, "devices_per_domain": 8, "pace_deviation": 0.01,
         "collectives": {"overhead_s": 1e-5, "tree_efficiency": 0.9,
           "overlap_slowdown": {"value": 0.1, "tag": "measured", "source": "a paper"},
           "protocols": [{"bandwidth_share": {"value": 0.5, "tag": "fitted", "source": "a sweep"},
                          "intra_node_latency_s": 1e-6, "inter_node_latency_s": 5e-6}]},
         "fabric": {"rail_nics": true, "pod_nodes": 32, "oversubscription": 7},)");
  const ClusterSpec cluster = LoadCluster(Write("cluster.json", text));
  EXPECT_EQ(DevicesPerDomain(cluster), 8);
  EXPECT_EQ(cluster.collectives.overlap_slowdown, 0.1);
  ASSERT_EQ(cluster.collectives.protocols.size(), 1u);
  EXPECT_EQ(cluster.collectives.protocols[0].inter_node_latency_s, 5e-6);
  EXPECT_EQ(cluster.fabric,
            (FabricSpec{.rail_nics = true, .pod_nodes = 32, .oversubscription = 7}));
  EXPECT_EQ(cluster.sources.at("/collectives/protocols/0/bandwidth_share").tag, "fitted");
  EXPECT_EQ(LoadCluster(Write("again.json", WriteCluster(cluster))), cluster);
}

TEST_F(ClusterJsonTest, ANegativeBandwidthIsRefused) {
  EXPECT_THAT(ErrorAfter("\"bandwidth_bytes_per_s\": 1e9", "\"bandwidth_bytes_per_s\": -1"),
              HasSubstr("cluster.json: /inter_node/bandwidth_bytes_per_s: found -1, expected a "
                        "number above 0"));
}

TEST_F(ClusterJsonTest, NonsenseNumbersAreRefused) {
  EXPECT_THAT(ErrorAfter("\"latency_s\": 1e-6", "\"latency_s\": -1e-6"),
              HasSubstr("/intra_node/latency_s"));
  EXPECT_THAT(ErrorAfter("\"latency_s\": 1e-6", "\"latency_s\": 1e-6, \"efficiency\": 1.5"),
              HasSubstr("/intra_node/efficiency: found 1.5, expected a number above 0 and at most "
                        "1"));
  EXPECT_THAT(ErrorAfter("8e9", "0"), HasSubstr("/device/memory_bytes: found 0"));
  EXPECT_THAT(ErrorAfter("8e9", "\"8 GB\""), HasSubstr("found \"8 GB\", expected an integer"));
  EXPECT_THAT(ErrorAfter("\"devices_per_node\": 2", "\"devices_per_node\": 0"),
              HasSubstr("/devices_per_node"));
}

TEST_F(ClusterJsonTest, TablesMustAscendAndStayBelowThePeak) {
  EXPECT_THAT(ErrorAfter("[1e9, 0.8]", "[1e5, 0.8]"),
              HasSubstr("/device/matmul_efficiency_by_flops/1/0: found 100000.0, expected a size "
                        "above 1e+06"));
  EXPECT_THAT(ErrorAfter("[1e9, 0.8]", "[1e9, 0]"),
              HasSubstr("/device/matmul_efficiency_by_flops/1/1: found 0"));
  EXPECT_THAT(ErrorAfter("[1e9, 0.8]", "[1e9]"), HasSubstr("a pair [size, efficiency]"));
}

TEST_F(ClusterJsonTest, ASourceNeedsAKnownTagAndNothingElse) {
  EXPECT_THAT(ErrorAfter("\"tag\": \"spec\"", "\"tag\": \"guess\""),
              HasSubstr("/device/memory_bytes/tag: found \"guess\", expected \"spec\", "
                        "\"measured\", \"fitted\" or \"assumed\""));
  EXPECT_THAT(ErrorAfter("\"source\": \"gemm\"", "\"sorce\": \"gemm\""),
              HasSubstr("/device/peak_flops_per_s/fp32/sorce: found an unknown key, expected "
                        "\"source\""));
  EXPECT_THAT(ErrorAfter("\"value\": 8e9, ", ""), HasSubstr("/device/memory_bytes/value"));
}

TEST_F(ClusterJsonTest, ADeviceWithoutAnyPeakIsRefused) {
  EXPECT_THAT(ErrorAfter("{\"fp32\": {\"value\": 2e12, \"tag\": \"measured\", \"source\": "
                         "\"gemm\"}}",
                         "{}"),
              HasSubstr("/device/peak_flops_per_s"));
}

TEST_F(ClusterJsonTest, AnUnknownNameSuggestsThePresetMeant) {
  EXPECT_THAT(ConfigErrorOf([] { LoadCluster("dgx-a100-80g"); }),
              AllOf(HasSubstr("found \"dgx-a100-80g\""), HasSubstr("\"dgx-a100-80gb\"")));
}

using HyperparametersTest = FileTest;

TEST_F(HyperparametersTest, KeysInTheFileReplaceThoseOfTheTrainingAlone) {
  TrainingSpec training = {.global_batch_size = 7, .sequence_length = 5, .seed = 99};
  LoadHyperparameters(
      Write("train.json", R"({"steps": 10, "seq_length": 32, "lr": 0.005, "lr_warmup_steps": 3,
                              "lr_decay_style": "linear", "clip_grad": 0})"),
      training);
  EXPECT_EQ(training.steps, 10);
  EXPECT_EQ(training.sequence_length, 32);
  EXPECT_EQ(training.global_batch_size, 7);
  EXPECT_EQ(training.seed, 99u);
  EXPECT_EQ(training.optimizer.lr, 0.005);
  EXPECT_EQ(training.optimizer.lr_warmup_steps, 3);
  EXPECT_EQ(training.optimizer.lr_decay_style, LrDecayStyle::kLinear);
  EXPECT_EQ(training.optimizer.clip_grad, 0);
  EXPECT_EQ(training.optimizer.adam_beta2, OptimizerSpec().adam_beta2);
}

TEST_F(HyperparametersTest, AWrongFileChangesNothing) {
  TrainingSpec training;
  const std::string path = Write("train.json", R"({"steps": 10, "learning_rate": 1})");
  EXPECT_THAT(ConfigErrorOf([&] { LoadHyperparameters(path, training); }),
              HasSubstr("/learning_rate: found an unknown key"));
  EXPECT_EQ(training, TrainingSpec());
}

}  // namespace
}  // namespace tessera::spec
