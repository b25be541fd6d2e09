#include "tests/integration/small_job.h"

#include <cmath>
#include <map>
#include <sstream>

namespace tessera::testing {

std::string SmallModel() {
  return R"({
  "name": "small", "norm": "rmsnorm", "position": "rope", "activation": "swiglu",
  "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
  "head_dim": 16, "ffn_hidden_size": 128, "vocab_size": 257, "max_sequence_length": 64,
  "qkv_bias": false, "attention_output_bias": false, "mlp_bias": false, "tied_embeddings": false,
  "norm_epsilon": 1e-5, "rope_theta": 10000, "init_standard_deviation": 0.02
})";
}

std::string SmallText(int num_lines) {
  const std::vector<std::string> words = {"rank",     "sends", "its",   "tensor", "to",   "the",
                                          "next",     "stage", "and",   "waits",  "for",  "a",
                                          "gradient", "of",    "every", "layer",  "then", "stops"};
  constexpr int kWordsInALine = 9;
  std::string text;
  uint32_t state = 1;
  for (int line = 0; line < num_lines; ++line) {
    for (int i = 0; i < kWordsInALine; ++i) {
      state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
      text += words[(state >> 16) % words.size()] + (i + 1 < kWordsInALine ? " " : ".\n");
    }
  }
  return text;
}

std::string SmallHyperparameters() {
  return R"({"lr": 0.004, "lr_warmup_steps": 4, "lr_decay_style": "constant"})";
}

std::string RunWell(const std::string& line, const TemporaryFolder& folder) {
  const CommandResult result = RunCommand(line, folder);
  EXPECT_EQ(result.exit_code, 0) << line << '\n' << result.err;
  return result.out;
}

nlohmann::json RunForJson(const std::string& line, const TemporaryFolder& folder) {
  return nlohmann::json::parse(RunWell(line + " --format json", folder));
}

void MakeSmallJob(const TemporaryFolder& folder) {
  folder.Write("model.json", SmallModel());
  folder.Write("train.json", SmallHyperparameters());
  folder.Write("text.txt", SmallText(1000));
  RunWell("data build text.txt --out corpus --append-eod --quiet", folder);
}

void PlanSmall(const std::string& layout, const std::string& name, const TemporaryFolder& folder) {
  std::ostringstream line;
  line << "plan --model model.json --cluster local-cpu --devices 4 --quiet"
       << " --global-batch-size " << kSmallBatchSize << " --seq-length " << kSmallSequenceLength
       << ' ' << layout << " --out " << name;
  RunWell(line.str(), folder);
}

std::vector<nlohmann::json> ReadRows(const std::string& name, const TemporaryFolder& folder) {
  std::istringstream stream(folder.Read(name));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(stream, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

void ExpectSameLosses(const std::vector<nlohmann::json>& rows,
                      const std::vector<nlohmann::json>& expected, double relative) {
  std::map<int, double> loss_of_step;
  for (const nlohmann::json& row : expected) loss_of_step[row["step"]] = row["loss"];
  for (const nlohmann::json& row : rows) {
    const double loss = loss_of_step.at(row["step"]);
    EXPECT_NEAR(row["loss"].get<double>(), loss, relative * std::abs(loss)) << row["step"];
  }
}

}  // namespace tessera::testing
