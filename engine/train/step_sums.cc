#include "engine/train/step_sums.h"

#include <cmath>
#include <vector>

namespace tessera::engine {

StepMeeting MeetAtStepEnd(Communicator& world, const StepSums& mine) {
  std::vector<StepSums> all(static_cast<size_t>(world.size()));
  world.AllGather(&mine, all.data(), sizeof(StepSums), base::DType::kUInt8);
  StepMeeting meeting;
  std::vector<RankCompute> computes;
  for (size_t i = 0; i < all.size(); ++i) {
    const StepSums& rank = all[i];
    meeting.sums.loss += rank.loss;
    meeting.sums.balance_loss += rank.balance_loss;
    meeting.sums.router_z_loss += rank.router_z_loss;
    meeting.sums.squared_norm += rank.squared_norm;
    meeting.sums.num_targets += rank.num_targets;
    meeting.sums.num_stop_requests += rank.num_stop_requests;
    computes.push_back(rank.last_compute);
    if (!std::isfinite(rank.loss) && meeting.first_bad_loss_rank < 0) {
      meeting.first_bad_loss_rank = static_cast<int>(i);
    }
  }
  meeting.straggler = FindStraggler(computes);
  return meeting;
}

}  // namespace tessera::engine
