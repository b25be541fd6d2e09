// One rank's part of a world of processes: how its groups connect, what it waits for, and what ends
// its waits when the run fails.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/control_client.h"
#include "engine/comm/control_server.h"
#include "engine/comm/host_mail.h"
#include "engine/comm/process_world.h"
#include "engine/comm/rank_activity.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace tessera::engine {

struct GlooGroupInfo {
  std::string name;              // "tp{0,1}"
  std::string id;                // the same on all ranks of the group, and no other group's
  std::vector<int> world_ranks;  // by rank in the group
  int rank = 0;                  // in the group
  int activity = 0;              // of RankActivity::AddGroup
};

class GlooWorld {
 public:
  // One wait of a thread, for as long as it lives; see Await.
  class Wait {
   public:
    // Both outlive the wait.
    Wait(GlooWorld& world, const GlooGroupInfo& group, const CommOp& op);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    friend class GlooWorld;
    using Clock = std::chrono::steady_clock;
    RankWait ForPeers() const;

    GlooWorld& world_;
    const GlooGroupInfo& group_;
    const CommOp& op_;
    const Clock::time_point since_ = Clock::now();
    // Of the world's mutex:
    ::gloo::transport::UnboundBuffer* buffer_ = nullptr;  // waited on now
    bool is_told_ = false;                                // that it is too long
  };

  // Collective over the processes.
  GlooWorld(const ProcessRank& process, const MeetingPlace& place,
            const ProcessWorldOptions& options);
  ~GlooWorld();
  GlooWorld(const GlooWorld&) = delete;
  GlooWorld& operator=(const GlooWorld&) = delete;

  int rank() const { return process_.rank; }
  int num_ranks() const { return process_.num_ranks; }
  const ProcessWorldOptions& options() const { return options_; }
  RankActivity& activity() { return activity_; }

  // Through which the ranks of a group talk; null where they are not all on one host, one of them
  // does not reach another's memory, or TCP was asked for. Collective over them.
  HostMail* ShareMemory(const GlooGroupInfo& group);
  // Connects the ranks of a group with each other by TCP. Collective over them.
  std::shared_ptr<::gloo::transport::Context> Connect(const GlooGroupInfo& group);

  // Ends every wait of every rank.
  void Fail(const std::string& reason) { control_->Fail(reason); }
  // The same for what this rank leaves undone, unless it says by Fail at once what made it do so.
  void GiveUp(const std::string& reason) { control_->GiveUp(reason); }
  bool failed() const { return control_->failed(); }
  // "rank 3 of tp{2,3}, step 7: all_reduce #5".
  std::string Describe(const GlooGroupInfo& group, const CommOp& op) const;
  // Throws what the rank has to say of its operation: the reason itself where it found it there.
  // REQUIRES: failed().
  [[noreturn]] void ThrowFailed(const GlooGroupInfo& group, const CommOp& op);
  // Something went wrong between this rank and a peer: throws, once it is known why.
  [[noreturn]] void ThrowBroken(const GlooGroupInfo& group, const CommOp& op, int world_peer,
                                const std::string& problem);

  // Returns when what was posted on the buffer is done; throws base::CommError otherwise.
  void AwaitSend(Wait& wait, ::gloo::transport::UnboundBuffer& buffer, int world_peer);
  void AwaitReceive(Wait& wait, ::gloo::transport::UnboundBuffer& buffer, int world_peer);

  // Returns once `ready()`, about mail; throws base::CommError when the run fails.
  template <typename Ready>
  void AwaitMail(Wait& wait, const Ready& ready) {
    constexpr std::chrono::hours kForever(24 * 30);  // the world ends waits
    const WaitResult result = mail_->bell().Await(wait_policy_, EventCount::Clock::now() + kForever,
                                                  ready, [&] { return failed(); });
    if (result != WaitResult::kReady) ThrowFailed(wait.group_, wait.op_);
  }

  // Waits until every rank has come here, or the run has failed.
  void Leave();

 private:
  // A group that is being connected.
  struct Connecting {
    ::gloo::transport::Context* context = nullptr;  // whose pairs a failure must close
    RankWait wait;                                  // for all ranks of the group, its number 0
    std::string what;                               // "rank 1 of world: connecting"
    Deadline deadline;
  };

  template <typename WaitFor>
  void Await(Wait& wait, ::gloo::transport::UnboundBuffer& buffer, int world_peer,
             const WaitFor& wait_for);
  void MakeDevice();
  // Runs `connect`, which a failure or the initial timeout ends; throws what there is to say where
  // that fails.
  template <typename Act>
  void WhileConnecting(const GlooGroupInfo& group, const Act& connect);
  void ConnectPairs(const GlooGroupInfo& group, ::gloo::transport::Context& context);
  // Waits for what each other rank of the group sets under `key`, after setting `value`; by rank in
  // the group.
  std::vector<std::string> Exchange(const GlooGroupInfo& group, const std::string& key,
                                    const std::string& value);
  bool AllReachAll(const GlooGroupInfo& group);
  void OnFailure(const ControlFailure& failure);
  void OnLeft(int rank, const RankProgress& progress);
  void OnTick();
  RankProgress Progress() const;
  // "", or where the last operations stand.
  std::string RecordNote();

  const ProcessRank process_;
  const ProcessWorldOptions options_;
  const WaitPolicy wait_policy_;
  std::unique_ptr<ControlServer> server_;  // of rank 0
  RankActivity activity_;
  std::unique_ptr<HostMail> mail_;  // null where TCP was asked for, or the host gives no memory
  std::shared_ptr<::gloo::transport::Device> device_;
  // Kept until all ranks have left: a connection that closes may drop what is under way.
  std::vector<std::shared_ptr<::gloo::transport::Context>> contexts_;
  std::once_flag is_recorded_;
  std::string record_note_;
  mutable std::mutex mutex_;  // of what follows
  std::list<Wait*> waits_;
  std::optional<Connecting> connecting_;
  std::map<int, RankProgress> left_;  // ranks that have done their work
  std::unique_ptr<ControlClient> control_;
};

}  // namespace tessera::engine
