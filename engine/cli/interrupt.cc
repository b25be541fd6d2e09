#include "engine/cli/interrupt.h"

#include <csignal>

namespace tessera::engine {
namespace {

std::atomic<bool> interrupted = false;

void OnSignal(int signal) {
  interrupted.store(true);
  std::signal(signal, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& CatchInterrupts() {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  return interrupted;
}

}  // namespace tessera::engine
