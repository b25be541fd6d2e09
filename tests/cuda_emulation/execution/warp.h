// The state of one warp of a running block: which lanes can run, and what the others wait for.
#pragma once

#include <cstdint>

#include "tests/cuda_emulation/device/meeting.h"

namespace tessera::cuda_emulation {

// The lanes of one mask on their way to an intrinsic. Values are kept twice, in turns: a lane may
// bring the next one while others still have to read the last.
struct LaneMeeting {
  uint32_t mask = 0;
  uint32_t arrived = 0;  // wait for the others
  uint32_t unread = 0;   // may go on, but have not read what the others brought
  const char* what = nullptr;
  LaneWork work = nullptr;
  unsigned turn = 0;
  uint32_t lanes[2];
  uint64_t values[2][kWarpSize];

  bool IsIdle() const { return (arrived | unread) == 0; }
  // All have come: their lanes, which may go on. `last` is the bit of the one that runs already.
  uint32_t Release(uint32_t last);
};

class Warp {
 public:
  uint32_t live = 0;        // exist and have not returned
  uint32_t unstarted = 0;   // have not begun
  uint32_t ready = 0;       // waited, and may go on
  uint32_t at_barrier = 0;  // wait for the block
  int num_meetings = 0;
  LaneMeeting meetings[kWarpSize];  // a lane takes part in one at a time

  uint32_t runnable() const { return ready | unstarted; }
  void Reset(unsigned num_lanes);
  LaneMeeting& MeetingOf(uint32_t mask) {
    return num_meetings > 0 && meetings[0].mask == mask ? meetings[0] : FindMeeting(mask);
  }

 private:
  LaneMeeting& FindMeeting(uint32_t mask);
};

}  // namespace tessera::cuda_emulation
