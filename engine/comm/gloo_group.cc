#include "engine/comm/gloo_group.h"

#include <gloo/transport/context.h>

#include <algorithm>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {

GlooGroup::GlooGroup(GlooWorld& world, GlooGroupInfo info)
    : world_(world),
      info_([&] {
        info.activity = world.activity().AddGroup(info.id, info.name);
        return std::move(info);
      }()),
      mail_number_(std::hash<std::string>()(info_.id)) {
  if (size() == 1) return;
  mail_ = world_.ShareMemory(info_);
  if (mail_ == nullptr) context_ = world_.Connect(info_);
}

GlooGroup::~GlooGroup() {
  thread_.request_stop();
  changed_.notify_all();
}

std::byte* GlooGroup::Scratch(int64_t num_bytes) {
  if (static_cast<int64_t>(scratch_.size()) < num_bytes) {
    scratch_.resize(static_cast<size_t>(num_bytes));
  }
  return scratch_.data();
}

std::shared_ptr<GlooGroup::Task> GlooGroup::Post(const CommOp& op, int64_t record, Run run) {
  auto task = std::make_shared<Task>();
  task->op = op;
  task->run = std::move(run);
  task->record = record;
  if (world_.failed()) world_.ThrowFailed(info_, task->op);
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  return task;
}

void GlooGroup::LetGoOn(Task& task) {
  {
    const std::lock_guard lock(mutex_);
    task.goes_on_alone = true;
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { RunAlone(stop); });
    }
  }
  changed_.notify_all();
}

void GlooGroup::Await(Task& task) {
  std::unique_lock lock(mutex_);
  while (!task.is_over) {
    if (!is_running_ && !tasks_.empty()) {
      RunFirst(lock);
    } else {
      changed_.wait(lock);
    }
  }
  if (task.failure != nullptr) std::rethrow_exception(task.failure);
}

void GlooGroup::Abandon(const std::shared_ptr<Task>& task) {
  std::unique_lock lock(mutex_);
  if (task->is_over) return;
  lock.unlock();
  world_.GiveUp(world_.Describe(info_, task->op) + " was given up");
  lock.lock();
  std::erase(tasks_, task);
  // What is in neither place is over, or runs and finds the failure.
  changed_.wait(lock, [&] { return task->is_over || !is_running_; });
}

void GlooGroup::RunFirst(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Task> task = std::move(tasks_.front());
  tasks_.pop_front();
  is_running_ = true;
  lock.unlock();
  try {
    GlooWorld::Wait wait(world_, info_, task->op);
    task->run(wait, task->op);
  } catch (...) {
    task->failure = std::current_exception();
  }
  world_.activity().End(task->record);
  lock.lock();
  task->is_over = true;
  is_running_ = false;
  changed_.notify_all();
}

void GlooGroup::RunAlone(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto has_work = [&] {
    return !is_running_ && std::any_of(tasks_.begin(), tasks_.end(),
                                       [](const auto& task) { return task->goes_on_alone; });
  };
  while (changed_.wait(lock, stop, has_work)) RunFirst(lock);
}

}  // namespace tessera::engine
