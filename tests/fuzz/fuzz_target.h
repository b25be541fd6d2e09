// Readers of files that may come from anywhere, each as a function of the file's bytes: for
// libFuzzer (libfuzzer_main.cc, scripts/fuzz.sh) and for the mutations of mutation_test.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::fuzz {

struct FuzzTarget {
  std::string name;
  // What the product says against a file of these bytes; empty where it takes it. A
  // base::ConfigError or a base::InfeasibleError is its way to say no; whatever else comes out is a
  // fault.
  std::function<std::string(std::string_view bytes)> refusal;
  std::vector<std::string> seeds;  // that it takes
};

std::vector<FuzzTarget> ConfigTargets();
std::vector<FuzzTarget> DataTargets();
std::vector<FuzzTarget> CheckpointTargets();
std::vector<FuzzTarget> TextTargets();
std::vector<FuzzTarget> ReportTargets();

std::vector<FuzzTarget> AllTargets();

// A FuzzTarget's `refusal` of what `read` reads.
std::function<std::string(std::string_view)> RefusalOf(std::function<void(std::string_view)> read);

// `read` opens a file with this ending.
FuzzTarget FileTarget(const std::string& name, const std::string& ending,
                      void (*read)(const std::string& path), std::vector<std::string> seeds);

}  // namespace tessera::fuzz
