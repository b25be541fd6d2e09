// Operations on a part of the tokens of every sequence, held against the same on all of them, and
// copies of rows that lie apart. For any backend.
#pragma once

#include "tests/kernels/half_test.h"

namespace tessera::kernels::testing {

// Rotary and learned positions of a rank that holds two chunks of every sequence, or one.
void ExpectTokensKeepTheirPositions(Backend& backend, DType dtype);

// The same where samples hold documents: a token's position is that of a sample which begins where
// its document does.
void ExpectPositionsCountFromDocuments(Backend& backend, DType dtype);

// From each type to each type, with rows and blocks in any order.
void ExpectRowsAreCopied(Backend& backend, DType from, DType to);

}  // namespace tessera::kernels::testing
