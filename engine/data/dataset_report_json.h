// What `data build` and `data inspect` print with --format json.
#pragma once

#include <string>

#include "engine/data/dataset_builder.h"
#include "engine/data/dataset_summary.h"

namespace tessera::engine {

std::string ToJson(const BuildResult& result);
std::string ToJson(const DatasetSummary& summary);

}  // namespace tessera::engine
