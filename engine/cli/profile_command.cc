#include "engine/cli/profile_command.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/spec_json.h"
#include "engine/cli/device_choice.h"
#include "engine/cli/link_check_table.h"
#include "engine/train/gpu_profile.h"
#include "engine/train/link_check_json.h"
#include "engine/train/machine_profile.h"

namespace tessera::engine {
namespace {

constexpr char kProfileExamples[] = R"(Examples:
  tessera profile --out machine.json
  tessera plan --model nano-gpt --cluster machine.json --devices 4
  tessera profile --device cuda --out gpus.json
  tessera profile --check --cluster machine.json --ranks 4
  srun -N 2 --ntasks-per-node 8 tessera profile --check --cluster dgx-h100 --device cuda
Takes a few seconds. Run it on a quiet machine: whatever else computes is measured too.)";

struct Flags {
  std::string out;
  std::string name = "this-machine";
  std::string device = "cpu";
  std::string format = "table";
  bool quiet = false;
  bool checks = false;
  std::string cluster;
  int num_ranks = 0;
  double least_share = 0.7;
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

// Wrong results are a failure; slow links are told, as other load on the machine slows them too.
base::ExitCode RunCheck(const Flags& flags) {
  std::optional<spec::ClusterSpec> cluster;
  if (!flags.cluster.empty()) cluster = spec::LoadCluster(flags.cluster);
  bool is_first = true;
  LinkCheck check =
      CheckLinksOfJob({.device = DeviceKindFromString(flags.device)}, flags.num_ranks, is_first);
  if (cluster) SetExpectations(*cluster, check);
  if (is_first && flags.format == "json") {
    std::cout << WriteLinkCheck(check, flags.least_share) << '\n';
  } else if (is_first) {
    PrintLinkCheck(check, flags.least_share, std::cout);
  }
  return check.has_wrong() ? base::kExitFailure : base::kExitDone;
}

void RunProfile(const Flags& flags) {
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

void AddCheckFlags(CLI::App& command, Flags& flags) {
  CLI::Option* const check = command.add_flag(
      "--check", flags.checks,
      "Instead of measuring the machine: test collectives and the links between ranks, of this "
      "machine or of the job that a launcher started, against a cluster file; exit code 1 where a "
      "result is wrong");
  command
      .add_option("--cluster", flags.cluster,
                  "What --check holds bandwidths against: a preset's name or a file")
      ->needs(check);
  constexpr int kMaxRanks = 1024;
  command
      .add_option("--ranks", flags.num_ranks,
                  "Ranks that --check runs as threads of this process (default: one a core or GPU, "
                  "at least 2)")
      ->check(CLI::Range(2, kMaxRanks))
      ->needs(check);
  command
      .add_option("--least-share", flags.least_share,
                  "Bandwidths below this share of the cluster file's are marked as slow")
      ->check(CLI::NonNegativeNumber)
      ->needs(check)
      ->capture_default_str();
  for (const char* const other : {"--out", "--name"}) {
    check->excludes(command.get_option(other));
  }
}

}  // namespace

void AddProfileCommand(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  auto* command =
      app.add_subcommand("profile", "Measure this machine and its links; write a cluster file");
  command->footer(kProfileExamples);
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
  AddCheckFlags(*command, *flags);
  command->callback([flags, arguments, &exit_code] {
    RunWhereDeviceIs(DeviceKindFromString(flags->device), arguments);
    exit_code = base::kExitDone;
    if (flags->checks) {
      exit_code = RunCheck(*flags);
    } else {
      RunProfile(*flags);
    }
  });
}

}  // namespace tessera::engine
