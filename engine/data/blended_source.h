// The sample source of a blend.
#pragma once

#include <memory>

#include "engine/data/sample_source.h"

namespace tessera::engine {

// As OpenSampleSource, for options with a blend.
std::unique_ptr<SampleSource> OpenBlendedSource(const DataOptions& options);

}  // namespace tessera::engine
