// What a command says of input that it cannot use.
#pragma once

#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "tests/integration/command_runner.h"

namespace tessera::testing {

// Says that the command ends with `exit_code` and tells it in exactly one line, the last on
// stderr, which holds all of `words`.
void ExpectRefusal(const std::string& line, base::ExitCode exit_code,
                   const std::vector<std::string>& words, const TemporaryFolder& folder);

}  // namespace tessera::testing
