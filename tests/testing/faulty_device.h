// CPU devices with a fault planted, as a doctor must find it: nothing of it is in the product.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/device/rank_device.h"

namespace tessera::testing {

// What a collective is about to do for this rank.
struct CollectiveCall {
  base::OpKind kind = base::OpKind::kAllReduce;
  std::string group;  // "grad{0,1}"
  int index = 0;      // of this kind in this group, from 0
};
// Whether this rank's result of the call gets lost: its output keeps what it held, in place the
// rank's own input.
using LosesResult = std::function<bool(const CollectiveCall&)>;

// Passes everything on to `inner`, which must outlive it, and to the groups split from it.
std::unique_ptr<engine::Communicator> MakeLossyCommunicator(engine::Communicator& inner,
                                                            const LosesResult& loses);

// A device whose world and groups lose results.
std::unique_ptr<engine::RankDevice> MakeLossyDevice(engine::Communicator& host_world,
                                                    const LosesResult& loses);

// A device on which each matrix product takes `delay_s` longer.
std::unique_ptr<engine::RankDevice> MakeSlowDevice(engine::Communicator& host_world,
                                                   double delay_s);

}  // namespace tessera::testing
