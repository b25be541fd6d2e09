// How an NCCL communicator splits: the ranks tell each other what they want over NCCL itself, so
// that groups of one rank, which need no communicator, are known before.
#include <algorithm>
#include <iterator>
#include <tuple>

#include "cost_model/base/check.h"
#include "engine/comm/nccl_communicator.h"
#include "engine/comm/nccl_types.h"
#include "kernels/cuda/cuda_error.h"

namespace tessera::engine {

using kernels::cuda::CheckCuda;

std::vector<NcclCommunicator::SplitRequest> NcclCommunicator::GatherRequests(
    const SplitRequest& mine) {
  std::vector<SplitRequest> requests(static_cast<size_t>(size()));
  if (size() == 1) return {mine};
  const NcclWorld& world = group_->world();
  const size_t own_bytes = sizeof(SplitRequest);
  const size_t all_bytes = own_bytes * requests.size();
  std::byte* const all = group_->scratch();
  std::byte* const own = all + all_bytes;
  CheckCuda(cudaMemcpyAsync(own, &mine, own_bytes, cudaMemcpyHostToDevice, world.compute_stream()),
            "cudaMemcpyAsync to the device");
  DoAllGather(own, all, static_cast<int64_t>(own_bytes), base::DType::kUInt8)->Wait();
  CheckCuda(cudaMemcpyAsync(requests.data(), all, all_bytes, cudaMemcpyDeviceToHost,
                            world.compute_stream()),
            "cudaMemcpyAsync to the host");
  world.WaitForCompute("split", name());
  return requests;
}

std::unique_ptr<Communicator> NcclCommunicator::Split(int color, int key, const std::string& name) {
  NcclWorld& world = group_->world();
  const std::vector<SplitRequest> requests =
      GatherRequests({.color = color, .key = key, .world_rank = world.rank(), .rank = rank()});
  const auto members_of = [&](int wanted) {
    std::vector<SplitRequest> members;
    std::copy_if(requests.begin(), requests.end(), std::back_inserter(members),
                 [&](const SplitRequest& request) { return request.color == wanted; });
    std::sort(members.begin(), members.end(), [](const SplitRequest& a, const SplitRequest& b) {
      return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
    });
    return members;
  };
  NcclGroupInfo info = {.name = name,
                        .id = base::Concat(group_->info().id, '/', num_splits_++, ':', color)};
  for (const SplitRequest& member : members_of(color)) {
    if (member.world_rank == world.rank()) info.rank = static_cast<int>(info.world_ranks.size());
    info.world_ranks.push_back(member.world_rank);
  }
  const auto is_alone = [&](int wanted) { return wanted < 0 || members_of(wanted).size() == 1; };
  const bool needs_no_comm =
      std::all_of(requests.begin(), requests.end(),
                  [&](const SplitRequest& request) { return is_alone(request.color); });
  const auto split = [&](const char* comm_name, ncclComm_t* comm) {
    ncclResult_t result = ncclSuccess;
    group_->Call("split", [&](ncclComm_t parent) {
      ncclConfig_t config = MakeNcclConfig(comm_name);
      const int nccl_color = is_alone(color) ? NCCL_SPLIT_NOCOLOR : color;
      return result = ncclCommSplit(parent, nccl_color, key, comm, &config);
    });
    return result;
  };
  if (is_alone(color) && !needs_no_comm) {
    ncclComm_t none = nullptr;  // the others need this rank's call
    split("", &none);
  }
  if (color < 0) return nullptr;
  auto group = std::make_unique<NcclGroup>(world, std::move(info), split);
  return std::unique_ptr<Communicator>(new NcclCommunicator(std::move(group)));
}

}  // namespace tessera::engine
