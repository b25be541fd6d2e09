#include "engine/train/step_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::engine {
Straggler FindStraggler(std::vector<double> compute_s_by_rank) {
  const auto slowest = std::max_element(compute_s_by_rank.begin(), compute_s_by_rank.end());
  const double slowest_s = *slowest;
  Straggler straggler{.rank = static_cast<int>(slowest - compute_s_by_rank.begin())};
  const auto middle =
      compute_s_by_rank.begin() + static_cast<std::ptrdiff_t>((compute_s_by_rank.size() - 1) / 2);
  std::nth_element(compute_s_by_rank.begin(), middle, compute_s_by_rank.end());
  if (*middle > 0) straggler.ratio = slowest_s / *middle;
  return straggler;
}

StepMeeting MeetAtStepEnd(Communicator& world, const StepSums& mine) {
  std::vector<StepSums> all(static_cast<size_t>(world.size()));
  world.AllGather(&mine, all.data(), sizeof(StepSums), base::DType::kUInt8);
  StepMeeting meeting;
  std::vector<double> compute_s;
  for (size_t i = 0; i < all.size(); ++i) {
    const StepSums& rank = all[i];
    meeting.sums.loss += rank.loss;
    meeting.sums.balance_loss += rank.balance_loss;
    meeting.sums.router_z_loss += rank.router_z_loss;
    meeting.sums.squared_norm += rank.squared_norm;
    meeting.sums.num_targets += rank.num_targets;
    meeting.sums.num_stop_requests += rank.num_stop_requests;
    compute_s.push_back(rank.last_compute_s);
    if (!std::isfinite(rank.loss) && meeting.first_bad_loss_rank < 0) {
      meeting.first_bad_loss_rank = static_cast<int>(i);
    }
  }
  meeting.straggler = FindStraggler(std::move(compute_s));
  return meeting;
}

}  // namespace tessera::engine
