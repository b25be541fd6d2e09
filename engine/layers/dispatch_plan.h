// Which row of a token goes where on its way to the experts and back: worked out on the host from
// the experts that the router has chosen.
//
// Rows leave in the order of the experts, and of one expert's in that of the tokens. They arrive
// from expert-tensor rank r and expert rank s in the order (r, s, expert, token), the rows of an
// expert-tensor rank in a block as long as the longest one. The experts take them in the order
// (expert, r, s, token): an expert adds up its gradients in the order of the tokens of all ranks,
// however the experts are spread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::engine {

// How tokens are routed on one rank.
struct RoutingShape {
  int64_t num_tokens = 0;  // of this rank
  int64_t num_experts = 0;
  int64_t experts_per_token = 0;
  int64_t capacity = 0;  // rows that an expert takes from this rank, filled up; 0: all there are
};

// The rows that one rank sends. A row without a token (-1) fills an expert up to its capacity.
struct OutgoingRows {
  std::vector<int32_t> token;       // [rows]
  std::vector<int32_t> choice;      // [rows]: token * experts_per_token + which of its experts
  std::vector<int32_t> row;         // [num_tokens, experts_per_token]; -1: beyond the capacity
  std::vector<int32_t> per_expert;  // [num_experts]
  int64_t num_rows() const { return static_cast<int64_t>(token.size()); }
};
// `chosen`: [num_tokens, experts_per_token], no expert twice for a token.
OutgoingRows RouteRows(const RoutingShape& shape, std::span<const int32_t> chosen);

// Where a rank sits among those that it exchanges rows with.
struct ExpertMesh {
  int expert_size = 1;
  int expert_rank = 0;
  int tensor_size = 1;  // expert-tensor ranks, who share the matrices of the experts
  int tensor_rank = 0;
};

// The rows that come to one rank's experts.
struct IncomingRows {
  std::vector<int64_t> sent;         // [expert_size]: rows that this rank sends to each
  std::vector<int64_t> received;     // [expert_size]: and gets from each
  int64_t num_received = 0;          // their sum
  int64_t block_rows = 0;            // of each expert-tensor rank
  bool reorders = false;             // else rows arrive as the experts take them
  std::vector<int32_t> arrival;      // [rows]: by the experts' order, where a row has arrived
  std::vector<int32_t> position;     // [tensor_size * block_rows]: the way back; -1: no row
  std::vector<int64_t> expert_rows;  // [experts here]
  int64_t num_rows() const { return static_cast<int64_t>(arrival.size()); }
  int64_t num_arrivals(const ExpertMesh& mesh) const { return mesh.tensor_size * block_rows; }
};
// `per_expert`: [tensor_size, expert_size, num_experts], what every rank sends to every expert.
IncomingRows ArriveRows(const ExpertMesh& mesh, int64_t num_experts,
                        std::span<const int32_t> per_expert);

}  // namespace tessera::engine
