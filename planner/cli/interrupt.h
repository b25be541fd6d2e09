// Ctrl-C as a request to stop.
#pragma once

#include <stop_token>
#include <thread>

namespace tessera::planner {

// While it lives, the first SIGINT or SIGTERM stops its token; the next one ends the process.
// Threads started meanwhile leave these signals to it. For the main thread, before it starts
// others.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace tessera::planner
