// Trainings of plans on ranks of this process, recorded whole.
#pragma once

#include <functional>
#include <memory>

#include "cost_model/spec/plan.h"
#include "engine/train/global_state.h"
#include "tests/testing/comm_backends.h"

namespace tessera::testing {

using engine::GlobalTensor;
using engine::GlobalTensors;
using engine::TrainedModel;

// Trains all steps of the plan on CPUs.
TrainedModel TrainOver(CommBackend backend, const spec::Plan& plan);
inline TrainedModel TrainOnThreads(const spec::Plan& plan) {
  return TrainOver(CommBackend::kThread, plan);
}

using MakeDevice = std::function<std::unique_ptr<engine::RankDevice>(engine::Communicator& world)>;
// The same on other devices, on threads.
TrainedModel TrainOnThreads(const spec::Plan& plan, const MakeDevice& make_device);

}  // namespace tessera::testing
