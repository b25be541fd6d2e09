#include "tests/testing/golden_case.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "cost_model/spec/spec_json.h"

namespace tessera::testing {
namespace {

std::string GoldenDir() {
  const char* from_environment = std::getenv("TESSERA_GOLDEN_DIR");
  return from_environment != nullptr ? from_environment : TESSERA_SOURCE_DIR "/tests/golden";
}

GoldenCase LoadCase(const std::filesystem::path& dir) {
  GoldenCase golden{.name = dir.filename().string(), .dir = dir.string()};
  golden.model = spec::LoadModel((dir / "config.json").string());
  golden.training.precision = spec::Precision::kFp32;
  spec::LoadHyperparameters((dir / "train.json").string(), golden.training);
  std::ifstream file(dir / "expected.json");
  const nlohmann::json expected = nlohmann::json::parse(file);
  for (const nlohmann::json& step : expected.at("steps")) {
    golden.steps.push_back({.loss = step.at("loss"),
                            .grad_norm = step.at("grad_norm"),
                            .lr = step.at("lr"),
                            .balance_loss = step.value("balance_loss", 0.0)});
  }
  for (const auto& [key, value] : expected.items()) {
    if (value.is_object()) golden.final_parameter_norms = value;
  }
  return golden;
}

std::vector<GoldenCase> LoadCases(bool with_experts) {
  std::vector<std::filesystem::path> dirs;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDir())) {
    if (std::filesystem::exists(entry.path() / "expected.json")) dirs.push_back(entry.path());
  }
  std::sort(dirs.begin(), dirs.end());
  std::vector<GoldenCase> cases;
  for (const std::filesystem::path& dir : dirs) {
    GoldenCase golden = LoadCase(dir);
    if (golden.model.moe.has_value() == with_experts) cases.push_back(std::move(golden));
  }
  return cases;
}

}  // namespace

std::vector<GoldenCase> LoadGoldenCases() { return LoadCases(/*with_experts=*/false); }
std::vector<GoldenCase> LoadExpertGoldenCases() { return LoadCases(/*with_experts=*/true); }

}  // namespace tessera::testing
