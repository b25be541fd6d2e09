// Items worked on by several threads, whose results come out in the order of the items.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::engine {

// At most 2 results a thread wait for their turn, so that memory stays bounded however slowly one
// item goes. An exception is a result too: it is thrown when the turn of its item comes.
template <typename Result>
class OrderedWork {
 public:
  explicit OrderedWork(size_t num_items) : num_items_(num_items) {}

  // On each of `num_threads` threads calls make_worker() once, and then what it returns with the
  // number of an item; calls take(result) on this thread, item by item. Where take throws, the
  // items at work are finished, no more are begun, and the exception comes out.
  template <typename MakeWorker, typename Take>
  void Run(int num_threads, const MakeWorker& make_worker, const Take& take) {
    window_ = 2 * static_cast<size_t>(num_threads);
    std::vector<std::jthread> threads;
    const Stopper stopper{*this};  // goes before the threads are joined
    for (int i = 0; i < num_threads; ++i) {
      threads.emplace_back([this, &make_worker] {
        auto worker = make_worker();
        while (WorkOnOne(worker)) {
        }
      });
    }
    for (size_t item = 0; item < num_items_; ++item) take(Await(item));
  }

 private:
  struct Outcome {
    Result result{};
    std::exception_ptr error;
  };
  struct Stopper {
    OrderedWork& work;
    ~Stopper() { work.Stop(); }
  };

  void Stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

  // False where there is nothing left to do.
  template <typename Worker>
  bool WorkOnOne(Worker& worker) {
    size_t item = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(
          lock, [this] { return stopped_ || next_ >= num_items_ || next_ < num_taken_ + window_; });
      if (stopped_ || next_ >= num_items_) return false;
      item = next_++;
    }
    Outcome outcome;
    try {
      outcome.result = worker(item);
    } catch (...) {
      outcome.error = std::current_exception();
    }
    {
      const std::scoped_lock lock(mutex_);
      outcomes_.emplace(item, std::move(outcome));
    }
    changed_.notify_all();
    return true;
  }

  Result Await(size_t item) {
    Outcome outcome;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return outcomes_.contains(item); });
      outcome = std::move(outcomes_.extract(item).mapped());
      ++num_taken_;
    }
    changed_.notify_all();
    if (outcome.error) std::rethrow_exception(outcome.error);
    return std::move(outcome.result);
  }

  size_t num_items_;
  size_t window_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, Outcome> outcomes_;  // that wait for their turn
  size_t next_ = 0;
  size_t num_taken_ = 0;
  bool stopped_ = false;
};

}  // namespace tessera::engine
