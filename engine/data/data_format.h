// The formats of training data by name, and which one a file has.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/data/sample_source.h"
#include "engine/data/token_store.h"

namespace tessera::engine {

// "auto", "idx", "raw-u8", "raw-u16", "raw-i32", "llmc".
std::string_view ToString(DataFormat format);
// "shuffled", "sequential".
std::string_view ToString(DataOrder order);

// Throw base::ConfigError for an unknown name.
DataFormat DataFormatFromString(std::string_view name);
DataOrder DataOrderFromString(std::string_view name);

// The format that name and first bytes give away:
// - an existing PREFIX.idx for a prefix, PREFIX.bin or PREFIX.idx: kIndexed;
// - llm.c's magic number: kLlmC;
// - the ending .u8 or .txt (the bytes of a text are its tokens): kRawU8; .u16: kRawU16;
//   .i32: kRawI32.
// Throws base::ConfigError where nothing does, or the file is missing.
DataFormat DetectDataFormat(const std::string& path);

// Opens `path` as `format`; kAuto detects it. Throws base::ConfigError as the formats' readers do.
std::unique_ptr<TokenStore> OpenTokenStore(const std::string& path, DataFormat format);

}  // namespace tessera::engine
