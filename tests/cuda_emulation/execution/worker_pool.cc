#include "tests/cuda_emulation/execution/worker_pool.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::cuda_emulation {
namespace {

struct Job {
  const std::function<void()>* work;
  int num_running = 0;
};

class WorkerPool {
 public:
  ~WorkerPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(int num_helpers, const std::function<void()>& work) {
    Job job{.work = &work};
    {
      const std::lock_guard lock(mutex_);
      while (static_cast<int>(threads_.size()) < num_helpers)
        threads_.emplace_back([this] { Help(); });
      for (int i = 0; i < num_helpers; ++i) wanted_.push_back(&job);
    }
    wake_.notify_all();
    work();
    std::unique_lock lock(mutex_);
    std::erase(wanted_, &job);  // nobody was free in time
    done_.wait(lock, [&] { return job.num_running == 0; });
  }

 private:
  void Help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stopping_ || !wanted_.empty(); });
      if (stopping_) return;
      Job& job = *wanted_.front();
      wanted_.pop_front();
      ++job.num_running;
      lock.unlock();
      (*job.work)();
      lock.lock();
      --job.num_running;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job*> wanted_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
};

}  // namespace

void RunWithHelpers(int num_helpers, const std::function<void()>& work) {
  if (num_helpers <= 0) {
    work();
    return;
  }
  static WorkerPool pool;
  pool.Run(num_helpers, work);
}

}  // namespace tessera::cuda_emulation
