#include "tests/cuda_emulation/execution/warp.h"

#include <bit>

#include "cost_model/base/check.h"

namespace tessera::cuda_emulation {

uint32_t LaneMeeting::Release(uint32_t last) {
  const unsigned now = turn & 1;
  lanes[now] = arrived;
  if (work != nullptr) work(values[now]);
  for (uint32_t absent = ~arrived; absent != 0; absent &= absent - 1) {
    values[now][std::countr_zero(absent)] = kAbsentLaneValue;
  }
  const uint32_t released = arrived & ~last;
  unread |= released;
  arrived = 0;
  ++turn;
  return released;
}

void Warp::Reset(unsigned num_lanes) {
  live = num_lanes >= kWarpSize ? kAllLanes : (1u << num_lanes) - 1;
  unstarted = live;
  ready = 0;
  at_barrier = 0;
  num_meetings = 0;
}

LaneMeeting& Warp::FindMeeting(uint32_t mask) {
  LaneMeeting* idle = nullptr;
  for (int i = 0; i < num_meetings; ++i) {
    if (meetings[i].mask == mask) return meetings[i];
    if (meetings[i].IsIdle()) idle = &meetings[i];
  }
  if (idle == nullptr) {
    TESSERA_CHECK(num_meetings < static_cast<int>(kWarpSize), num_meetings, " masks in use");
    idle = &meetings[num_meetings++];
    idle->arrived = 0;
    idle->unread = 0;
  }
  idle->mask = mask;
  return *idle;
}

}  // namespace tessera::cuda_emulation
