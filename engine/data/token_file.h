// Readers of files that are one long run of tokens: raw ones, and those of llm.c.
#pragma once

#include <memory>
#include <string>

#include "engine/data/mapped_file.h"
#include "engine/data/token_store.h"

namespace tessera::engine {

// A file of nothing but little-endian token ids: one sequence, one document. Throws
// base::ConfigError for a file that is missing, empty or not a whole number of tokens.
std::unique_ptr<TokenStore> OpenRawTokenFile(const std::string& path, TokenType type);

// A token file of llm.c: a header of 256 i32 {magic, version, tokens, 0...}, then the tokens: u16
// for magic 20240520, version 1 (GPT-2), u32 for magic 20240801, version 7 (Llama 3). Throws
// base::ConfigError for another header, or a file that is not exactly as long as it says.
// Source: llm.c, dev/data/data_common.py.
std::unique_ptr<TokenStore> OpenLlmCTokenFile(const std::string& path);

// Whether the file starts as one of llm.c's token files does.
bool HasLlmCMagic(const MappedFile& file);

}  // namespace tessera::engine
