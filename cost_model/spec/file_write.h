#pragma once

#include <string>

namespace tessera::spec {

// Writes the file whole or not at all: a temporary file beside it, synced, then renamed over it.
// Throws base::SystemError that names the call and the path.
void WriteFileAtomically(const std::string& path, const std::string& text);

}  // namespace tessera::spec
