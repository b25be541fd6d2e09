#include "engine/comm/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/rendezvous_file.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {
namespace {

// What either end says first; all hosts of a run store numbers alike.
struct Hello {
  char protocol[8] = {'t', 'e', 's', 's', 'e', 'r', 'a', '1'};
  int32_t rank = 0;
  int32_t num_ranks = 0;
};
struct Reply {
  char protocol[8] = {'t', 'e', 's', 's', 'e', 'r', 'a', '1'};
  int32_t refused = 0;  // 1: a reason follows instead of the message
  int32_t num_bytes = 0;
};

// For a connection that says nothing: some other program's.
constexpr double kHelloTimeoutS = 10;
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

std::string ReplyWith(bool refused, const std::string& message) {
  const Reply reply = {.refused = refused ? 1 : 0,
                       .num_bytes = static_cast<int32_t>(message.size())};
  return BytesOf(reply) + message;
}

std::string RanksOf(const std::vector<std::optional<Socket>>& connections) {
  std::string missing;
  for (size_t rank = 1; rank < connections.size(); ++rank) {
    if (!connections[rank]) missing += base::Concat(missing.empty() ? "" : ", ", rank);
  }
  return missing;
}

// What is wrong with a rank that has come; "" for nothing.
std::string ProblemOf(const std::vector<std::optional<Socket>>& connections, const Hello& hello) {
  const int rank = hello.rank;
  const int num_ranks = hello.num_ranks;
  const int expected = static_cast<int>(connections.size());
  if (num_ranks != expected) {
    return base::Concat("rank ", rank, " thinks that there are ", num_ranks, " ranks, rank 0 that ",
                        expected);
  }
  if (rank < 1 || rank >= expected) return base::Concat("there is no rank ", rank);
  if (connections[static_cast<size_t>(rank)]) return base::Concat("rank ", rank, " has come twice");
  return "";
}

void Serve(const ProcessRank& process, const MeetingPlace& place, const std::string& message,
           Deadline deadline) {
  const Socket listener = Listen(place.port);
  std::vector<std::optional<Socket>> connections(static_cast<size_t>(process.num_ranks));
  for (int num_missing = process.num_ranks - 1; num_missing > 0;) {
    std::optional<Socket> connection = Accept(listener, deadline);
    if (!connection) {
      throw base::CommError(base::Concat("rank 0 waited at port ", place.port, " for rank ",
                                         RanksOf(connections), " in vain (started by ",
                                         process.launcher, ')'));
    }
    const Deadline hello_deadline = std::min(deadline, DeadlineAfter(kHelloTimeoutS));
    const auto hello = Receive<Hello>(*connection, hello_deadline);
    if (!hello) continue;
    const std::string problem = ProblemOf(connections, *hello);
    if (!problem.empty()) {
      (void)connection->SendAll(ReplyWith(true, problem), deadline);
      throw base::ConfigError(
          base::Concat("the ranks that meet at port ", place.port, ": ", problem));
    }
    connections[static_cast<size_t>(hello->rank)] = std::move(connection);
    --num_missing;
  }
  // Not before all are there: then either all go on or none.
  for (size_t rank = 1; rank < connections.size(); ++rank) {
    if (connections[rank]->SendAll(ReplyWith(false, message), deadline)) continue;
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
  const Hello hello = {.rank = process.rank, .num_ranks = process.num_ranks};
  std::optional<Reply> reply;
  std::string message;
  const bool has_come =
      connection->SendAll(BytesOf(hello), deadline) &&
      (reply = Receive<Reply>(*connection, deadline)) &&
      connection->ReceiveAll(static_cast<size_t>(reply->num_bytes), message, deadline);
  if (!has_come) {
    throw base::CommError(base::Concat(who, SecondsLeft(deadline) > 0
                                                ? " has hung up; it tells why"
                                                : " still waits for other ranks"));
  }
  if (reply->refused != 0) throw base::ConfigError(base::Concat(who, " refuses: ", message));
  return message;
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
