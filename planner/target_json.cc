// Reading a target's file: declared in target.h.
#include <nlohmann/json.hpp>

#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"
#include "planner/target.h"

namespace tessera::planner {

void LoadTarget(const std::string& name, Request& request) {
  const std::string path = spec::PresetPath("targets", name);
  std::string runtime = name;
  request.target = {};
  if (!path.empty()) {
    const nlohmann::json document = spec::ReadJsonFile(path);
    spec::FieldReader::Read(document, path, [&](spec::FieldVisitor& fields) {
      constexpr spec::Presence kOptional = spec::Presence::kOptional;
      TargetLimits& limits = request.target;
      fields.Remark("source");
      fields.Text("runtime", runtime);
      fields.Integers("zero_stages", limits.zero_stages, kOptional);
      fields.Texts("context_kinds", limits.context_kinds, kOptional);
      fields.Flag("overlap_param_gather", limits.overlap_param_gather, kOptional);
      fields.Flag("overlap_tp_comm", limits.overlap_tp_comm, kOptional);
      fields.Flag("overlap_pp_comm", limits.overlap_pp_comm, kOptional);
      fields.Flag("is_own_engine", limits.is_own_engine, kOptional);
    });
  }
  request.job.runtime = spec::LoadRuntime(runtime);
}

}  // namespace tessera::planner
