// An operation that was done when it was posted.
#pragma once

#include "engine/comm/communicator.h"

namespace tessera::engine {

class DoneHandle final : public CommHandle {
 public:
  void Wait() override {}
};

}  // namespace tessera::engine
