#include "planner/cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace tessera::planner {
namespace {

sigset_t Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void Watch(const std::stop_token& end, std::stop_source source) {
  const sigset_t signals = Interrupts();
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!end.stop_requested()) {
    if (sigtimedwait(&signals, nullptr, &kPause) < 0) continue;
    source.request_stop();
    // From here on a signal does what it always does.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    return;
  }
}

}  // namespace

InterruptWatch::InterruptWatch() {
  const sigset_t signals = Interrupts();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::jthread(Watch, source_);
}

InterruptWatch::~InterruptWatch() {
  watcher_.request_stop();
  watcher_.join();
  const sigset_t signals = Interrupts();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace tessera::planner
