// A handle of an operation that by itself would wait for its rank to wait for it.
#pragma once

#include "engine/comm/communicator.h"

namespace tessera::engine {

class LoneHandle : public CommHandle {
 public:
  // The rank does other things before it waits: whatever the operation needs of this rank must go
  // on without it. Called once, by the asynchronous forms of Communicator.
  virtual void GoOnAlone() = 0;
};

}  // namespace tessera::engine
