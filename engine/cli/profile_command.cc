#include "engine/cli/profile_command.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/spec_json.h"
#include "engine/cli/device_choice.h"
#include "engine/train/gpu_profile.h"
#include "engine/train/machine_profile.h"

namespace tessera::engine {
namespace {

constexpr char kExamples[] = R"(Examples:
  tessera profile --out machine.json
  tessera plan --model nano-gpt --cluster machine.json --devices 4
  tessera profile --device cuda --out gpus.json
Takes a few seconds. Run it on a quiet machine: whatever else computes is measured too.)";

struct Flags {
  std::string out;
  std::string name = "this-machine";
  std::string device = "cpu";
  std::string format = "table";
  bool quiet = false;
};

// "  memory size    24.00 GiB"
struct RowPrinter {
  std::ostream& out;
  void operator()(const char* name, double value, const char* unit) const {
    out << "  " << std::left << std::setw(22) << name << std::right << std::fixed
        << std::setprecision(2) << std::setw(10) << value << ' ' << unit << '\n';
  }
};

void PrintTable(const spec::ClusterSpec& cluster, std::ostream& out) {
  const spec::DeviceSpec& device = cluster.device;
  const RowPrinter row{out};
  out << cluster.shared_compute_units << " cores, " << device.name << '\n';
  row("matrix products", device.peak_flops_per_s.at(base::DType::kFloat32) * 1e-9,
      "GFLOP/s a core, all cores busy");
  row("memory, best pass", device.memory_bandwidth_bytes_per_s * 1e-9, "GB/s, all cores");
  row("memory, large pass",
      device.memory_bandwidth_bytes_per_s * device.memory_efficiency.back().efficiency * 1e-9,
      "GB/s, all cores");
  row("memory size", static_cast<double>(device.memory_bytes) / (1024.0 * 1024 * 1024), "GiB");
  row("smallest operation", device.launch_overhead_s * 1e6, "us");
  row("link between ranks", cluster.intra_node.bandwidth_bytes_per_s * 1e-9, "GB/s");
  row("link latency", cluster.intra_node.latency_s * 1e6, "us");
}

void PrintGpuTable(const spec::ClusterSpec& cluster, std::ostream& out) {
  const spec::DeviceSpec& device = cluster.device;
  const RowPrinter row{out};
  out << cluster.devices_per_node << " x " << device.name << '\n';
  row("bf16 peak", device.peak_flops_per_s.at(base::DType::kBFloat16) * 1e-12, "TFLOP/s");
  row("fp32 products", device.peak_flops_per_s.at(base::DType::kFloat32) * 1e-12, "TFLOP/s");
  row("large attention",
      device.peak_flops_per_s.at(base::DType::kBFloat16) *
          device.attention_efficiency.back().efficiency * 1e-12,
      "TFLOP/s");
  row("memory, large pass",
      device.memory_bandwidth_bytes_per_s * device.memory_efficiency.back().efficiency * 1e-12,
      "TB/s");
  row("memory size", static_cast<double>(device.memory_bytes) / (1024.0 * 1024 * 1024), "GiB");
  row("smallest operation", device.launch_overhead_s * 1e6, "us");
  row("link between ranks", cluster.intra_node.bandwidth_bytes_per_s * 1e-9, "GB/s");
  row("link latency", cluster.intra_node.latency_s * 1e6, "us");
}

spec::ClusterSpec DescribeCpu(const Flags& flags) {
  const HostInfo host = ReadHostInfo();
  if (!flags.quiet) std::cerr << "measuring kernels and links on " << host.num_cores << " cores\n";
  constexpr int kMinLinkRanks = 2;
  return DescribeMachine(flags.name, host, kernels::ProbeMachine(host.num_cores),
                         ProbeThreadLinks(std::max(kMinLinkRanks, host.num_cores)));
}

void Run(const Flags& flags) {
  const bool is_gpu = DeviceKindFromString(flags.device) == DeviceKind::kCuda;
  const spec::ClusterSpec cluster =
      is_gpu ? DescribeGpus(flags.name, ProbeGpus()) : DescribeCpu(flags);
  if (!flags.out.empty()) spec::WriteFileAtomically(flags.out, spec::WriteCluster(cluster) + "\n");
  if (flags.format == "json") {
    std::cout << spec::WriteCluster(cluster) << '\n';
  } else {
    (is_gpu ? PrintGpuTable : PrintTable)(cluster, std::cout);
    if (!flags.out.empty()) std::cout << "written to " << flags.out << '\n';
  }
}

}  // namespace

void AddProfileCommand(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  auto* command =
      app.add_subcommand("profile", "Measure this machine and its links; write a cluster file");
  command->footer(kExamples);
  auto flags = std::make_shared<Flags>();
  command->add_option("--out", flags->out, "Write the cluster file here");
  command->add_option("--name", flags->name, "Name in the cluster file")->capture_default_str();
  command->add_option("--device", flags->device, "What to measure: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--format", flags->format, "What to print: table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command->add_flag("--quiet", flags->quiet,
                    "No progress and no notes: the result and errors only");
  command->callback([flags, arguments, &exit_code] {
    RunWhereDeviceIs(DeviceKindFromString(flags->device), arguments);
    Run(*flags);
    exit_code = base::kExitDone;
  });
}

}  // namespace tessera::engine
