#include "engine/cli/output_options.h"

namespace tessera::engine {

void AddOutputOptions(CLI::App& command, std::string& format, bool& quiet) {
  command.add_option("--format", format, "How results are printed")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command.add_flag("--quiet", quiet, "No progress and no notes: the result and errors only");
}

}  // namespace tessera::engine
