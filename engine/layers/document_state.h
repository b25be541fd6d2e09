// Where the documents of the running pass's tokens begin. One per rank; changes from pass to pass.
#pragma once

#include "kernels/document_args.h"

namespace tessera::engine {

struct DocumentState {
  // Of all tokens of the micro-batch's samples, whichever rank holds them; absent where nothing on
  // the stage asks.
  kernels::DocumentStarts running;
};

}  // namespace tessera::engine
