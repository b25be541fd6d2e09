// One process group of the `gloo` backend: its connections, or the memory that it shares, and its
// collectives in the order of posting.
//
// One collective runs at a time, on the thread of the rank where that waits for it, else on a
// thread of the group's own that the first asynchronous one starts: an operation that was posted
// ahead then needs nothing of a rank that computes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/comm/gloo_world.h"

namespace tessera::engine {

class GlooGroup {
 public:
  using Run = std::function<void(GlooWorld::Wait& wait, const CommOp& op)>;
  // A collective under way.
  struct Task {
    CommOp op;
    Run run;
    int64_t record = 0;
    bool goes_on_alone = false;  // the group's thread may run it
    bool is_over = false;
    std::exception_ptr failure;
  };

  // Connects the ranks where there are several. Collective over them.
  GlooGroup(GlooWorld& world, GlooGroupInfo info);
  ~GlooGroup();
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  GlooWorld& world() const { return world_; }
  const GlooGroupInfo& info() const { return info_; }
  int size() const { return static_cast<int>(info_.world_ranks.size()); }
  int world_rank(int rank) const { return info_.world_ranks.at(static_cast<size_t>(rank)); }
  // Of a group whose ranks share memory; null where they talk by TCP, and in a group of one.
  HostMail* mail() const { return mail_; }
  // The group's in its ranks' mail.
  uint64_t mail_number() const { return mail_number_; }
  // REQUIRES: size() > 1 and mail() == nullptr.
  ::gloo::transport::Context& context() const { return *context_; }
  // Of the collective that runs; at least `num_bytes`, whatever was there is lost.
  std::byte* Scratch(int64_t num_bytes);

  // `record`: of the rank's activity, ended with the task.
  std::shared_ptr<Task> Post(const CommOp& op, int64_t record, Run run);
  // Lets the task go on while its rank does other things.
  void LetGoOn(Task& task);
  // Returns when the task is over; throws what it threw.
  void Await(Task& task);
  // Gives the task up; when this returns, nobody touches its buffers any more.
  void Abandon(const std::shared_ptr<Task>& task);

 private:
  void RunFirst(std::unique_lock<std::mutex>& lock);
  void RunAlone(const std::stop_token& stop);

  GlooWorld& world_;
  const GlooGroupInfo info_;
  HostMail* mail_ = nullptr;
  const uint64_t mail_number_;
  std::shared_ptr<::gloo::transport::Context> context_;
  std::vector<std::byte> scratch_;
  std::mutex mutex_;  // of what follows
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Task>> tasks_;  // not yet begun
  bool is_running_ = false;
  std::jthread thread_;
};

}  // namespace tessera::engine
