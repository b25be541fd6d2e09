#include "engine/comm/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/attendance.h"
#include "engine/comm/rendezvous_file.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {
namespace {

// What either end says first; all hosts of a run store numbers alike.
struct Hello {
  char protocol[8] = {'t', 'e', 's', 's', 'e', 'r', 'a', '2'};
  int32_t rank = 0;
  int32_t num_ranks = 0;
  char host[64] = {};  // ends with a zero
};
// What follows a reply: rank 0's message, or why there is none.
enum class Answer : int32_t { kMessage = 0, kNotOfThisRun = 1, kOthersMissing = 2 };
struct Reply {
  char protocol[8] = {'t', 'e', 's', 's', 'e', 'r', 'a', '2'};
  Answer answer = Answer::kMessage;
  int32_t num_bytes = 0;
};

// For a connection that says nothing: some other program's.
constexpr double kHelloTimeoutS = 10;

// A connection that has not yet said who it is.
struct Caller {
  Socket socket;
  std::string said;
  Deadline deadline;
};
constexpr std::chrono::milliseconds kRetryInterval{50};

template <typename Line>
std::string BytesOf(const Line& line) {
  return {reinterpret_cast<const char*>(&line), sizeof(line)};
}

template <typename Line>
std::optional<Line> Receive(const Socket& connection, Deadline deadline) {
  std::string bytes;
  if (!connection.ReceiveAll(sizeof(Line), bytes, deadline)) return std::nullopt;
  Line line;
  const std::string protocol(line.protocol, sizeof(line.protocol));
  std::memcpy(&line, bytes.data(), sizeof(line));
  if (bytes.compare(0, protocol.size(), protocol) != 0) return std::nullopt;
  return line;
}

std::string ReplyWith(Answer answer, const std::string& text) {
  const Reply reply = {.answer = answer, .num_bytes = static_cast<int32_t>(text.size())};
  return BytesOf(reply) + text;
}

std::string HostOf(const Hello& hello) {
  return {hello.host, strnlen(hello.host, sizeof(hello.host))};
}

using Connections = std::vector<std::optional<Socket>>;  // by rank

// What is wrong with a rank that has come; "" for nothing.
std::string ProblemOf(const Attendance& attendance, const Hello& hello) {
  const int rank = hello.rank;
  const int num_ranks = hello.num_ranks;
  const int expected = attendance.num_ranks();
  if (num_ranks != expected) {
    return base::Concat("rank ", rank, " on ", HostOf(hello), " thinks that there are ", num_ranks,
                        " ranks, rank 0 that ", expected);
  }
  if (rank < 1 || rank >= expected) return base::Concat("there is no rank ", rank);
  if (attendance.has(rank)) {
    return base::Concat("rank ", rank, " has come twice, the second time from ", HostOf(hello));
  }
  return "";
}

// Tells the ranks that have come who has not.
[[noreturn]] void GiveUp(const Attendance& attendance, const MeetingPlace& place,
                         const Connections& connections) {
  const std::string missing = attendance.WhoIsMissing();
  for (const auto& connection : connections) {
    if (!connection) continue;
    (void)connection->SendAll(ReplyWith(Answer::kOthersMissing, missing), DeadlineAfter(1));
  }
  throw base::CommError(base::Concat("rank 0 waited at port ", place.port, " in vain: ", missing));
}

// Whether what a connection has said so far may be the beginning of a rank's hello.
bool MayBeHello(const std::string& said) {
  const Hello hello;
  const std::string protocol(hello.protocol, sizeof(hello.protocol));
  return said.compare(0, protocol.size(), protocol, 0, std::min(said.size(), protocol.size())) == 0;
}

// The next rank that says hello. Connections are listened to side by side, so that one of another
// program holds up nobody. Nullopt when no rank has come by the deadline.
std::optional<std::pair<Hello, Socket>> AwaitHello(const Socket& listener,
                                                   std::vector<Caller>& callers,
                                                   Deadline deadline) {
  while (SecondsLeft(deadline) > 0) {
    std::erase_if(callers, [](const Caller& caller) { return SecondsLeft(caller.deadline) <= 0; });
    std::vector<const Socket*> sockets = {&listener};
    Deadline next = deadline;
    for (const Caller& caller : callers) {
      sockets.push_back(&caller.socket);
      next = std::min(next, caller.deadline);
    }
    const std::vector<size_t> ready = AwaitAny(sockets, next);
    // From the last: what goes leaves the others where they are.
    for (size_t i = ready.size(); i-- > 0 && ready[i] > 0;) {
      const auto caller = callers.begin() + static_cast<std::ptrdiff_t>(ready[i]) - 1;
      const bool is_there =
          caller->socket.ReceiveSome(sizeof(Hello) - caller->said.size(), caller->said);
      if (caller->said.size() == sizeof(Hello) && MayBeHello(caller->said)) {
        Hello hello;
        std::memcpy(&hello, caller->said.data(), sizeof(Hello));
        Socket socket = std::move(caller->socket);
        callers.erase(caller);
        return std::make_pair(hello, std::move(socket));
      }
      if (!is_there || !MayBeHello(caller->said)) callers.erase(caller);
    }
    if (ready.empty() || ready.front() != 0) continue;
    if (auto connection = Accept(listener, DeadlineAfter(0))) {
      callers.push_back({std::move(*connection), "", DeadlineAfter(kHelloTimeoutS)});
    }
  }
  return std::nullopt;
}

void Serve(const ProcessRank& process, const MeetingPlace& place, const std::string& message,
           Deadline deadline) {
  const Socket listener = Listen(place.port);
  Attendance attendance(process);
  Connections connections(static_cast<size_t>(process.num_ranks));
  std::vector<Caller> callers;
  for (int num_missing = process.num_ranks - 1; num_missing > 0; --num_missing) {
    auto come = AwaitHello(listener, callers, deadline);
    if (!come) GiveUp(attendance, place, connections);
    auto& [hello, connection] = *come;
    const std::string problem = ProblemOf(attendance, hello);
    if (!problem.empty()) {
      (void)connection.SendAll(ReplyWith(Answer::kNotOfThisRun, problem), deadline);
      throw base::ConfigError(
          base::Concat("the ranks that meet at port ", place.port, ": ", problem));
    }
    attendance.Add(hello.rank, HostOf(hello));
    connections[static_cast<size_t>(hello.rank)] = std::move(connection);
  }
  // Not before all are there: then either all go on or none.
  for (size_t rank = 1; rank < connections.size(); ++rank) {
    if (connections[rank]->SendAll(ReplyWith(Answer::kMessage, message), deadline)) continue;
    throw base::CommError(base::Concat("rank 0: rank ", rank, " left port ", place.port,
                                       " before it had its message"));
  }
}

std::string Fetch(const ProcessRank& process, const MeetingPlace& place, Deadline deadline) {
  const std::string who =
      base::Concat("rank ", process.rank, ": rank 0 at ", place.address, " port ", place.port);
  std::string problem;
  std::optional<Socket> connection;
  while (!(connection = Connect(place.address, place.port, deadline, problem))) {
    if (SecondsLeft(deadline) <= 0) {
      throw base::CommError(base::Concat(who, " does not answer: ", problem));
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
  Hello hello = {.rank = process.rank, .num_ranks = process.num_ranks};
  OwnHostName().copy(hello.host, sizeof(hello.host) - 1);
  std::optional<Reply> reply;
  std::string text;
  const Deadline last = WithAnswerGrace(deadline);
  const bool is_answered =
      connection->SendAll(BytesOf(hello), deadline) &&
      (reply = Receive<Reply>(*connection, last)) &&
      connection->ReceiveAll(static_cast<size_t>(reply->num_bytes), text, last);
  if (!is_answered) {
    throw base::CommError(base::Concat(who, SecondsLeft(last) > 0
                                                ? " has hung up; it tells why"
                                                : " waits for other ranks, or is stopped"));
  }
  switch (reply->answer) {
    case Answer::kMessage:
      return text;
    case Answer::kOthersMissing:
      throw base::CommError(base::Concat(who, " waited in vain: ", text));
    default:
      throw base::ConfigError(base::Concat(who, " refuses: ", text));
  }
}

}  // namespace

std::string ShareFromRankZero(const ProcessRank& process, const MeetingPlace& place,
                              const std::string& message, double timeout_s) {
  TESSERA_CHECK(process.rank >= 0 && process.rank < process.num_ranks, "rank ", process.rank,
                " of ", process.num_ranks);
  const Deadline deadline = DeadlineAfter(timeout_s);
  if (!place.file.empty()) return ShareByFile(process, place.file, message, deadline);
  if (process.rank > 0) return Fetch(process, place, deadline);
  Serve(process, place, message, deadline);
  return message;
}

}  // namespace tessera::engine
