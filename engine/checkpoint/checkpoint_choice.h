// Which checkpoint of a save folder a run goes on from: the newest one that is whole.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/communicator.h"

namespace tessera::engine {

// A newer checkpoint that was torn or damaged.
struct PassedOver {
  std::string folder;
  std::string problem;  // naming the file
};

struct CheckpointChoice {
  std::string folder;
  std::vector<PassedOver> passed_over;  // newest first
};

// Collective; every rank gets the same answer. A checkpoint's own folder is taken as it is, for
// what reads it to judge. Of a save folder the newest checkpoint is taken of which every byte
// matches its checksum: the ranks share its files and read each once. Throws base::ConfigError when
// there is none, with all problems, and for a checkpoint that is whole but that this version does
// not understand.
CheckpointChoice ChooseCheckpoint(const std::string& folder, Communicator& world);

}  // namespace tessera::engine
