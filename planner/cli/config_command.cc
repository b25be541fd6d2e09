#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/parameter_list.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"
#include "planner/cli/commands.h"
#include "planner/cli/config_emit_command.h"
#include "planner/cli/output_options.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using nlohmann::ordered_json;

constexpr const char* kConfigExamples = R"(Examples:
  tessera config list
  tessera config show llama3-8b
  tessera config import Llama-3.1-8B/config.json --out llama.json
  tessera config emit --plan plan.json --for megatron
)";
constexpr const char* kListExamples = R"(Examples:
  tessera config list
  tessera config list clusters
  tessera config list --format json
)";
constexpr const char* kShowExamples = R"(Examples:
  tessera config show llama3-8b
  tessera config show dgx-a100-80gb > my-cluster.json
)";
constexpr const char* kImportExamples = R"(Examples:
  tessera config import Llama-3.1-8B/config.json --out llama.json
  tessera config import megatron-arguments.yaml
A Hugging Face config.json or Megatron-LM arguments (JSON, YAML, or the text of a command line).
)";

struct ConfigOptions {
  std::string kind = "all";
  std::string format = "table";
  std::string name;
  std::string path;
  std::string out;
  bool quiet = false;
};

std::string Abbreviated(double count) {
  constexpr struct {
    double unit;
    const char* letter;
  } kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [unit, letter] : kUnits) {
    if (count >= unit) return FormatFixed(count / unit, count < 100 * unit ? 2 : 1) + letter;
  }
  return FormatFixed(count, 0);
}

std::string FamilyOf(const spec::ModelSpec& model) {
  if (model.moe) {
    return base::Concat("mixture of ", model.moe->num_experts, ", top ",
                        model.moe->experts_per_token);
  }
  return base::Concat(ToString(model.norm), ", ", ToString(model.position), ", ",
                      ToString(model.activation));
}

struct NamedModel {
  std::string name;
  spec::ModelSpec model;
  int64_t num_parameters = 0;
  // What stands before the size: gpt2, megatron, ...
  std::string Series() const { return name.substr(0, name.rfind('-')); }
};

// Series by series, small to large.
std::vector<NamedModel> Models() {
  std::vector<NamedModel> models;
  for (const std::string& name : spec::ListPresets("models")) {
    const spec::ModelSpec model = spec::LoadModel(name);
    models.push_back({name, model, spec::NumParameters(model)});
  }
  std::sort(models.begin(), models.end(), [](const NamedModel& a, const NamedModel& b) {
    return std::make_pair(a.Series(), a.num_parameters) <
           std::make_pair(b.Series(), b.num_parameters);
  });
  return models;
}

std::string ModelsTable() {
  TextTable table({"model", "parameters", "layers", "hidden", "heads", "kv heads", "ffn", "vocab",
                   "positions", "kind"});
  for (const auto& [name, model, num_parameters] : Models()) {
    table.AddRow({name, Abbreviated(static_cast<double>(num_parameters)),
                  std::to_string(model.num_layers), std::to_string(model.hidden_size),
                  std::to_string(model.num_attention_heads),
                  std::to_string(model.num_key_value_heads), std::to_string(model.ffn_hidden_size),
                  std::to_string(model.vocab_size), std::to_string(model.max_sequence_length),
                  FamilyOf(model)});
  }
  return table.ToString();
}

// The fastest type of matrix product that is common in training on this device.
std::pair<base::DType, double> UsualPeak(const spec::DeviceSpec& device) {
  for (const base::DType type :
       {base::DType::kBFloat16, base::DType::kFloat16, base::DType::kFloat32}) {
    const auto peak = device.peak_flops_per_s.find(type);
    if (peak != device.peak_flops_per_s.end()) return *peak;
  }
  return *device.peak_flops_per_s.begin();
}

std::string ClustersTable() {
  TextTable table({"cluster", "device", "memory", "peak", "memory GB/s", "per node", "link GB/s",
                   "NICs", "NIC GB/s"});
  for (const std::string& name : spec::ListPresets("clusters")) {
    const spec::ClusterSpec cluster = spec::LoadCluster(name);
    const auto [type, peak] = UsualPeak(cluster.device);
    table.AddRow({name, cluster.device.name,
                  FormatBytes(static_cast<double>(cluster.device.memory_bytes)),
                  base::Concat(FormatFixed(peak / 1e12, peak < 1e12 ? 3 : 1), " TFLOP/s ",
                               base::ToString(type)),
                  FormatFixed(cluster.device.memory_bandwidth_bytes_per_s / 1e9, 0),
                  cluster.devices_per_domain > cluster.devices_per_node
                      ? base::Concat(cluster.devices_per_node, " of ", cluster.devices_per_domain)
                      : std::to_string(cluster.devices_per_node),
                  FormatFixed(cluster.intra_node.bandwidth_bytes_per_s / 1e9, 1),
                  std::to_string(cluster.nics_per_node),
                  FormatFixed(cluster.inter_node.bandwidth_bytes_per_s / 1e9, 1)});
  }
  return table.ToString();
}

ordered_json ModelRow(const NamedModel& named) {
  ordered_json row = ordered_json::parse(spec::WriteModel(named.model));
  row["parameters"] = named.num_parameters;
  return row;
}

ordered_json ClusterRow(const std::string& name) {
  return ordered_json::parse(spec::WriteCluster(spec::LoadCluster(name)));
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// What programs can run: what a search for them leaves out.
std::string RuntimesTable() {
  TextTable table({"runtime", "schedules", "ZeRO up to", "context parallel", "expert parallel",
                   "uneven stages", "optimizer offload"});
  const auto word = [](bool can) { return std::string(can ? "yes" : "no"); };
  for (const std::string& name : spec::ListPresets("runtimes")) {
    const spec::RuntimeSpec runtime = spec::LoadRuntime(name);
    table.AddRow({name, Joined(runtime.schedules), std::to_string(runtime.max_zero_stage),
                  word(runtime.context_parallel), word(runtime.expert_parallel),
                  word(runtime.uneven_stages), word(runtime.optimizer_offload)});
  }
  return table.ToString();
}

ordered_json RuntimeRow(const std::string& name) {
  ordered_json row = ordered_json::parse(spec::ReadTextFile(spec::PresetPath("runtimes", name)));
  return row;
}

// One kind of preset: its table, and its rows as JSON.
struct Kind {
  const char* name;
  std::string (*table)();
  ordered_json (*rows)();
};

template <typename MakeRow>
ordered_json RowsOf(const char* kind, MakeRow make_row) {
  ordered_json rows = ordered_json::array();
  for (const std::string& name : spec::ListPresets(kind)) rows.push_back(make_row(name));
  return rows;
}

ordered_json ModelRows() {
  ordered_json rows = ordered_json::array();
  for (const NamedModel& named : Models()) rows.push_back(ModelRow(named));
  return rows;
}

const Kind kKinds[] = {
    {"models", ModelsTable, ModelRows},
    {"clusters", ClustersTable, [] { return RowsOf("clusters", ClusterRow); }},
    {"runtimes", RuntimesTable, [] { return RowsOf("runtimes", RuntimeRow); }},
};

void PrintList(const ConfigOptions& options) {
  ordered_json document = ordered_json::object();
  std::string text;
  for (const Kind& kind : kKinds) {
    if (options.kind != "all" && options.kind != kind.name) continue;
    if (options.format == "table") {
      text += (text.empty() ? "" : "\n") + kind.table();
    } else {
      document[kind.name] = kind.rows();
    }
  }
  std::cout << (options.format == "table" ? text : document.dump(2) + "\n");
}

// The preset's file as it is, with the remarks and sources in it.
void PrintPreset(const std::string& name) {
  std::vector<std::string> known;
  for (const char* kind : {"models", "clusters", "training", "runtimes"}) {
    const std::string path = spec::PresetPath(kind, name);
    if (!path.empty()) {
      std::cout << spec::ReadTextFile(path);
      return;
    }
    for (const std::string& preset : spec::ListPresets(kind)) known.push_back(preset);
  }
  const std::string nearest = spec::NearestName(name, known);
  throw base::ConfigError("config show", "", '"' + name + '"',
                          nearest.empty()
                              ? "the name of a preset (`tessera config list` shows them)"
                              : base::Concat("the name of a preset such as \"", nearest, '"'));
}

void Import(const ConfigOptions& options) {
  const spec::ModelSpec model = spec::LoadModel(options.path);
  const std::string text = spec::WriteModel(model);
  if (options.out.empty()) {
    std::cout << text;
    return;
  }
  spec::WriteFileAtomically(options.out, text);
  std::cout << options.out << ": " << model.name << ", "
            << Abbreviated(static_cast<double>(spec::NumParameters(model))) << " parameters\n";
}

}  // namespace

void AddConfigCommand(CLI::App& app) {
  auto options = std::make_shared<ConfigOptions>();  // kept by the callbacks
  CLI::App* config =
      app.add_subcommand("config", "List and show presets; import model files; export plans");
  config->footer(kConfigExamples);
  config->require_subcommand(1);

  CLI::App* list = config->add_subcommand("list", "The presets in a table");
  list->footer(kListExamples);
  list->add_option("kind", options->kind, "models|clusters|runtimes")
      ->check(CLI::IsMember({"models", "clusters", "runtimes"}));
  AddFormatOption(*list, options->format);
  AddQuietFlag(*list, options->quiet);
  list->callback([options] { PrintList(*options); });

  CLI::App* show = config->add_subcommand("show", "Print a preset's file");
  show->footer(kShowExamples);
  show->add_option("name", options->name, "A model, a cluster, a training or a runtime preset")
      ->required();
  AddQuietFlag(*show, options->quiet);
  show->callback([options] { PrintPreset(options->name); });

  CLI::App* importer = config->add_subcommand("import", "Turn a model's description into our JSON");
  importer->footer(kImportExamples);
  importer->add_option("file", options->path, "config.json, its folder, or an argument file")
      ->required();
  importer->add_option("--out", options->out, "Write it to this file");
  AddQuietFlag(*importer, options->quiet);
  importer->callback([options] { Import(*options); });

  AddConfigEmitCommand(*config);
}

}  // namespace tessera::planner
