#include "engine/layers/dispatch_plan.h"

#include <algorithm>
#include <numeric>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

// Rows of each expert, after those of the experts before it.
std::vector<int64_t> FirstRows(const std::vector<int32_t>& per_expert) {
  std::vector<int64_t> first(per_expert.size());
  std::exclusive_scan(per_expert.begin(), per_expert.end(), first.begin(), int64_t{0});
  return first;
}

// What every rank sends to the experts of this one, [tensor_size, expert_size, experts here].
class RowsHere {
 public:
  RowsHere(const ExpertMesh& mesh, int64_t num_experts, std::span<const int32_t> per_expert)
      : mesh_(mesh),
        num_experts_(num_experts),
        num_here_(num_experts / mesh.expert_size),
        per_expert_(per_expert) {}

  int64_t num_here() const { return num_here_; }
  // Rows from one rank to the experts of an expert rank.
  int64_t Between(int tensor, int source, int target) const {
    int64_t rows = 0;
    for (int64_t i = 0; i < num_here_; ++i) rows += Sent(tensor, source, target * num_here_ + i);
    return rows;
  }
  // To the i-th expert here.
  int64_t From(int tensor, int source, int64_t i) const {
    return Sent(tensor, source, mesh_.expert_rank * num_here_ + i);
  }

 private:
  int64_t Sent(int tensor, int source, int64_t expert) const {
    const int64_t rank = static_cast<int64_t>(tensor) * mesh_.expert_size + source;
    return per_expert_[static_cast<size_t>(rank * num_experts_ + expert)];
  }

  const ExpertMesh& mesh_;
  int64_t num_experts_;
  int64_t num_here_;
  std::span<const int32_t> per_expert_;
};

// Fills the orders of arrival and of the experts from one another.
void OrderRows(const ExpertMesh& mesh, const RowsHere& rows, IncomingRows& incoming) {
  incoming.position.assign(static_cast<size_t>(incoming.num_arrivals(mesh)), -1);
  // First arrival of each rank's rows for each expert.
  std::vector<std::vector<int64_t>> next(static_cast<size_t>(mesh.tensor_size) * mesh.expert_size);
  for (int tensor = 0; tensor < mesh.tensor_size; ++tensor) {
    int64_t arrival = tensor * incoming.block_rows;
    for (int source = 0; source < mesh.expert_size; ++source) {
      for (int64_t i = 0; i < rows.num_here(); ++i) {
        next[static_cast<size_t>(tensor * mesh.expert_size + source)].push_back(arrival);
        arrival += rows.From(tensor, source, i);
      }
    }
  }
  for (int64_t i = 0; i < rows.num_here(); ++i) {
    const int64_t before = incoming.num_rows();
    for (int tensor = 0; tensor < mesh.tensor_size; ++tensor) {
      for (int source = 0; source < mesh.expert_size; ++source) {
        int64_t arrival = next[static_cast<size_t>(tensor * mesh.expert_size + source)][i];
        for (int64_t r = 0; r < rows.From(tensor, source, i); ++r, ++arrival) {
          incoming.position[static_cast<size_t>(arrival)] =
              static_cast<int32_t>(incoming.num_rows());
          incoming.arrival.push_back(static_cast<int32_t>(arrival));
        }
      }
    }
    incoming.expert_rows.push_back(incoming.num_rows() - before);
  }
}

}  // namespace

OutgoingRows RouteRows(const RoutingShape& shape, std::span<const int32_t> chosen) {
  const auto num_choices = static_cast<size_t>(shape.num_tokens * shape.experts_per_token);
  TESSERA_CHECK(chosen.size() == num_choices, chosen.size(), " experts chosen for ",
                shape.num_tokens, " tokens");
  OutgoingRows rows;
  rows.per_expert.assign(static_cast<size_t>(shape.num_experts), 0);
  rows.row.assign(num_choices, -1);
  // The place of each choice among its expert's rows, in the order of the tokens.
  for (size_t i = 0; i < num_choices; ++i) {
    TESSERA_CHECK(chosen[i] >= 0 && chosen[i] < shape.num_experts, "expert ", chosen[i], " of ",
                  shape.num_experts);
    int32_t& count = rows.per_expert[static_cast<size_t>(chosen[i])];
    if (shape.capacity == 0 || count < shape.capacity) rows.row[i] = count++;
  }
  if (shape.capacity > 0) {
    std::fill(rows.per_expert.begin(), rows.per_expert.end(), static_cast<int32_t>(shape.capacity));
  }
  const std::vector<int64_t> first = FirstRows(rows.per_expert);
  const int64_t num_rows = first.back() + rows.per_expert.back();
  rows.token.assign(static_cast<size_t>(num_rows), -1);
  rows.choice.assign(static_cast<size_t>(num_rows), -1);
  for (size_t i = 0; i < num_choices; ++i) {
    if (rows.row[i] < 0) continue;
    rows.row[i] += static_cast<int32_t>(first[static_cast<size_t>(chosen[i])]);
    rows.choice[static_cast<size_t>(rows.row[i])] = static_cast<int32_t>(i);
    rows.token[static_cast<size_t>(rows.row[i])] =
        static_cast<int32_t>(static_cast<int64_t>(i) / shape.experts_per_token);
  }
  return rows;
}

IncomingRows ArriveRows(const ExpertMesh& mesh, int64_t num_experts,
                        std::span<const int32_t> per_expert) {
  TESSERA_CHECK(
      static_cast<int64_t>(per_expert.size()) == mesh.tensor_size * mesh.expert_size * num_experts,
      per_expert.size(), " counts for ", num_experts, " experts");
  const RowsHere rows(mesh, num_experts, per_expert);
  IncomingRows incoming;
  bool is_even = true;
  for (int tensor = 0; tensor < mesh.tensor_size; ++tensor) {
    int64_t received = 0;
    for (int source = 0; source < mesh.expert_size; ++source) {
      received += rows.Between(tensor, source, mesh.expert_rank);
    }
    is_even = is_even && (tensor == 0 || received == incoming.block_rows);
    incoming.block_rows = std::max(incoming.block_rows, received);
  }
  for (int peer = 0; peer < mesh.expert_size; ++peer) {
    incoming.sent.push_back(rows.Between(mesh.tensor_rank, mesh.expert_rank, peer));
    incoming.received.push_back(rows.Between(mesh.tensor_rank, peer, mesh.expert_rank));
    incoming.num_received += incoming.received.back();
  }
  OrderRows(mesh, rows, incoming);
  incoming.reorders = !is_even || (rows.num_here() > 1 && mesh.tensor_size * mesh.expert_size > 1);
  return incoming;
}

}  // namespace tessera::engine
