#include "engine/comm/gloo_world.h"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <sstream>

#include "cost_model/base/error.h"
#include "engine/comm/attendance.h"
#include "engine/comm/rendezvous.h"
#include "engine/comm/thread_world_state.h"

namespace tessera::engine {
namespace {

// The control server knows within this time why a connection has broken, if it was not the
// connection itself.
constexpr double kReasonPatienceS = 1;
// Waits are ended by the world, not by Gloo, which would close all connections.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 30);
// By which Gloo multiplies a context's timeout when it connects.
constexpr int kGlooConnectFactor = 5;

std::string NewSecret() {
  std::random_device random;
  return base::Concat(random(), '-', random(), '-', random());
}

// "[pair.cc:598] Connection closed by peer [127.0.0.1]:1234" without its place in the source.
std::string WithoutPlace(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const size_t end = line.find("] ");
  return !line.empty() && line.front() == '[' && end != std::string::npos ? line.substr(end + 2)
                                                                          : line;
}

std::unique_ptr<HostMail> MakeMail(int num_ranks, HostLink link) {
  if (link == HostLink::kTcp) return nullptr;
  try {
    return std::make_unique<HostMail>(num_ranks);
  } catch (const base::SystemError&) {
    return nullptr;  // then by TCP
  }
}

}  // namespace

GlooWorld::Wait::Wait(GlooWorld& world, const GlooGroupInfo& group, const CommOp& op)
    : world_(world), group_(group), op_(op) {
  const std::lock_guard lock(world_.mutex_);
  world_.waits_.push_back(this);
}

GlooWorld::Wait::~Wait() {
  const std::lock_guard lock(world_.mutex_);
  world_.waits_.remove(this);
}

RankWait GlooWorld::Wait::ForPeers() const {
  const bool is_collective = op_.kind == CommOp::Kind::kCollective;
  return {.group = group_.id,
          .name = group_.name,
          .op = op_,
          .world_ranks = is_collective ? group_.world_ranks : std::vector<int>{op_.peer}};
}

GlooWorld::GlooWorld(const ProcessRank& process, const MeetingPlace& place,
                     const ProcessWorldOptions& options)
    : process_(process),
      options_(options),
      wait_policy_(WaitPolicyFor(process.num_local_ranks.value_or(process.num_ranks))),
      mail_(MakeMail(process.num_ranks, options.host_link)) {
  std::signal(SIGPIPE, SIG_IGN);  // Gloo writes to peers that may have gone
  const Deadline deadline = DeadlineAfter(options.init_timeout_s);
  std::string message;
  if (rank() == 0) {
    const std::string secret = NewSecret();
    server_ = std::make_unique<ControlServer>(num_ranks(), secret, deadline);
    message = base::Concat(server_->port(), ' ', secret, ' ', OwnHostName());
  }
  std::istringstream answer(ShareFromRankZero(process, place, message, options.init_timeout_s));
  int port = 0;
  std::string secret, host;
  answer >> port >> secret >> std::ws;
  std::getline(answer, host);
  std::string address = place.file.empty() ? place.address : host;
  if (rank() == 0 || (!place.file.empty() && host == OwnHostName())) address = "127.0.0.1";
  control_ = std::make_unique<ControlClient>(address, port, rank(), secret, deadline);
  control_->Start(
      {.progress = [this] { return Progress(); },
       .on_failure = [this](const ControlFailure& failure) { OnFailure(failure); },
       .on_left = [this](int left, const RankProgress& progress) { OnLeft(left, progress); },
       .on_tick = [this] { OnTick(); }});
  MakeDevice();
}

// Before anything goes that its thread calls back.
GlooWorld::~GlooWorld() { control_->Stop(); }

void GlooWorld::MakeDevice() {
  ::gloo::transport::tcp::attr attributes;
  if (options_.interface.empty()) {
    attributes.hostname = control_->own_address();
  } else {
    attributes.iface = options_.interface;
  }
  try {
    device_ = ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    const std::string reason = base::Concat(
        "rank ", rank(), ": cannot talk through ",
        options_.interface.empty() ? attributes.hostname : "interface " + options_.interface, ": ",
        WithoutPlace(error.what()));
    Fail(reason);
    throw base::CommError(reason);
  }
}

template <typename Act>
void GlooWorld::WhileConnecting(const GlooGroupInfo& group, const Act& connect) {
  const std::string what = base::Concat("rank ", rank(), " of ", group.name, ": connecting");
  {
    const std::lock_guard lock(mutex_);
    connecting_ = {
        .wait = {.group = group.id, .name = group.name, .world_ranks = group.world_ranks},
        .what = what,
        .deadline = DeadlineAfter(options_.init_timeout_s)};
  }
  std::string problem;
  try {
    connect();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  {
    const std::lock_guard lock(mutex_);
    connecting_.reset();
  }
  if (problem.empty()) return;
  if (control_->AwaitFailure(kReasonPatienceS)) {
    throw AbortedError(what + " aborted: " + control_->failure()->reason);
  }
  Fail(what + " failed: " + WithoutPlace(problem));
  throw base::CommError(control_->failure()->reason);
}

std::shared_ptr<::gloo::transport::Context> GlooWorld::Connect(const GlooGroupInfo& group) {
  auto context = device_->createContext(group.rank, static_cast<int>(group.world_ranks.size()));
  context->setTimeout(kForever / kGlooConnectFactor);
  contexts_.push_back(context);
  WhileConnecting(group, [&] { ConnectPairs(group, *context); });
  return context;
}

HostMail* GlooWorld::ShareMemory(const GlooGroupInfo& group) {
  bool is_shared = false;
  WhileConnecting(group, [&] { is_shared = AllReachAll(group); });
  return is_shared ? mail_.get() : nullptr;
}

std::vector<std::string> GlooWorld::Exchange(const GlooGroupInfo& group, const std::string& key,
                                             const std::string& value) {
  const auto key_of = [&](int each) { return base::Concat(group.id, '/', key, '/', each); };
  control_->Set(key_of(group.rank), value);
  std::vector<std::string> values(group.world_ranks.size(), value);
  for (int peer = 0; peer < static_cast<int>(values.size()); ++peer) {
    if (peer == group.rank) continue;
    const std::optional<std::string> theirs = control_->Get(key_of(peer));
    if (!theirs) throw base::CommError("another rank has failed");
    values[static_cast<size_t>(peer)] = *theirs;
  }
  return values;
}

// Every rank comes to the same answer.
bool GlooWorld::AllReachAll(const GlooGroupInfo& group) {
  const std::string kNone = "none";
  const std::string kYes = "yes";
  const std::vector<std::string> tickets =
      Exchange(group, "memory", mail_ == nullptr ? kNone : mail_->ticket());
  for (const std::string& ticket : tickets) {
    if (ticket == kNone || SharedFile::HostOf(ticket) != SharedFile::HostOf(tickets.front())) {
      return false;
    }
  }
  std::string answer = kYes;
  try {
    for (size_t peer = 0; peer < tickets.size(); ++peer) {
      if (static_cast<int>(peer) == group.rank) continue;
      mail_->Open(group.world_ranks[peer], tickets[peer], rank());
    }
  } catch (const base::SystemError&) {
    answer = kNone;  // as between containers
  }
  const std::vector<std::string> answers = Exchange(group, "reached", answer);
  return std::count(answers.begin(), answers.end(), kYes) ==
         static_cast<std::ptrdiff_t>(answers.size());
}

// Each pair of ranks has a connection of the group's own; its address is told under the group's id.
void GlooWorld::ConnectPairs(const GlooGroupInfo& group, ::gloo::transport::Context& context) {
  std::vector<char> addresses;
  size_t address_bytes = 0;
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    const std::vector<char> address = context.createPair(peer)->address().bytes();
    address_bytes = address.size();
    addresses.insert(addresses.end(), address.begin(), address.end());
  }
  {
    const std::lock_guard lock(mutex_);
    connecting_->context = &context;
  }
  const std::vector<std::string> all =
      Exchange(group, "addresses", {addresses.begin(), addresses.end()});
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    // Without one for a rank itself.
    const int place = context.rank - (context.rank > peer ? 1 : 0);
    const auto begin =
        all[static_cast<size_t>(peer)].begin() + static_cast<std::ptrdiff_t>(place * address_bytes);
    context.getPair(peer)->connect({begin, begin + static_cast<std::ptrdiff_t>(address_bytes)});
  }
}

std::string GlooWorld::Describe(const GlooGroupInfo& group, const CommOp& op) const {
  const int64_t step = activity_.step();
  return base::Concat("rank ", rank(), " of ", group.name,
                      step < 0 ? "" : base::Concat(", step ", step), ": ", TitleOf(op));
}

std::string GlooWorld::RecordNote() {
  std::call_once(is_recorded_, [&] {
    record_note_ =
        RecordFailure(activity_, options_.record_folder, rank(), control_->failure()->reason);
  });
  return record_note_;
}

void GlooWorld::ThrowFailed(const GlooGroupInfo& group, const CommOp& op) {
  const ControlFailure failure = *control_->failure();
  const std::string what = Describe(group, op);
  const std::string note = RecordNote();
  if (failure.rank == rank() && failure.reason.rfind(what, 0) == 0) {
    throw base::CommError(failure.reason + note);
  }
  throw AbortedError(base::Concat(what, " aborted: ", failure.reason, note));
}

void GlooWorld::ThrowBroken(const GlooGroupInfo& group, const CommOp& op, int world_peer,
                            const std::string& problem) {
  if (!control_->AwaitFailure(kReasonPatienceS)) {
    Fail(base::Concat(Describe(group, op), ": the connection to rank ", world_peer,
                      " has broken: ", WithoutPlace(problem)));
  }
  ThrowFailed(group, op);
}

template <typename WaitFor>
void GlooWorld::Await(Wait& wait, ::gloo::transport::UnboundBuffer& buffer, int world_peer,
                      const WaitFor& wait_for) {
  const bool has_failed = [&] {
    const std::lock_guard lock(mutex_);
    if (failed()) return true;
    wait.buffer_ = &buffer;  // a failure from now on finds it and ends the wait
    return false;
  }();
  if (has_failed) ThrowFailed(wait.group_, wait.op_);
  bool is_done = false;
  std::string problem;
  try {
    is_done = wait_for();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  {
    const std::lock_guard lock(mutex_);
    wait.buffer_ = nullptr;
  }
  if (is_done) return;
  if (!failed()) ThrowBroken(wait.group_, wait.op_, world_peer, problem);
  ThrowFailed(wait.group_, wait.op_);
}

void GlooWorld::AwaitSend(Wait& wait, ::gloo::transport::UnboundBuffer& buffer, int world_peer) {
  Await(wait, buffer, world_peer, [&] { return buffer.waitSend(kForever); });
}

void GlooWorld::AwaitReceive(Wait& wait, ::gloo::transport::UnboundBuffer& buffer, int world_peer) {
  Await(wait, buffer, world_peer, [&] { return buffer.waitRecv(kForever); });
}

void GlooWorld::Leave() {
  if (!failed()) control_->Leave(activity_.Progress(), options_.timeout_s);
}

void GlooWorld::OnFailure(const ControlFailure& /*failure*/) {
  RecordNote();
  if (mail_ != nullptr) mail_->bell().NotifyAll();
  const std::lock_guard lock(mutex_);
  for (Wait* const wait : waits_) {
    if (wait->buffer_ == nullptr) continue;
    wait->buffer_->abortWaitRecv();
    wait->buffer_->abortWaitSend();
  }
  if (!connecting_ || connecting_->context == nullptr) return;
  ::gloo::transport::Context& context = *connecting_->context;
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer != context.rank) context.getPair(peer)->close();
  }
}

void GlooWorld::OnLeft(int rank, const RankProgress& progress) {
  const std::lock_guard lock(mutex_);
  left_[rank] = progress;
}

void GlooWorld::OnTick() {
  if (failed()) return;
  std::string failure, overdue;
  RankProgress too_long;
  {
    const std::lock_guard lock(mutex_);
    if (connecting_ && SecondsLeft(connecting_->deadline) <= 0) {
      overdue = base::Concat(connecting_->what, " timed out after ", options_.init_timeout_s, " s");
      too_long.waits = {connecting_->wait};
    }
    for (Wait* const wait : waits_) {
      const RankWait for_peers = wait->ForPeers();
      for (const auto& [left_rank, progress] : left_) {
        if (left_rank == rank() || !HasNotCalled(for_peers, rank(), left_rank, progress)) continue;
        failure = base::Concat(Describe(wait->group_, wait->op_), " cannot complete; rank ",
                               left_rank, " has ended without it");
      }
      const std::chrono::duration<double> so_far = Wait::Clock::now() - wait->since_;
      if (wait->is_told_ || so_far.count() < options_.timeout_s) continue;
      wait->is_told_ = true;
      overdue = base::Concat(Describe(wait->group_, wait->op_), " timed out after ",
                             options_.timeout_s, " s");
      too_long.waits = {for_peers};
    }
  }
  if (!failure.empty()) return Fail(failure);
  if (!overdue.empty()) control_->TellTimeout(overdue, too_long);
}

RankProgress GlooWorld::Progress() const {
  RankProgress progress = activity_.Progress();
  const std::lock_guard lock(mutex_);
  for (const Wait* const wait : waits_) progress.waits.push_back(wait->ForPeers());
  return progress;
}

}  // namespace tessera::engine
