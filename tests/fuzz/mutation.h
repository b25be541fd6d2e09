// Random changes to a file of the kinds that break readers.
#pragma once

#include <random>
#include <string>

namespace tessera::fuzz {

// One to four changes: bits flipped, ranges lost or doubled, the end cut off, numbers of text and
// little-endian integers replaced by those at the ends of their types.
std::string Mutate(std::string bytes, std::mt19937_64& random);

}  // namespace tessera::fuzz
