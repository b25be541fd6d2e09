// What befalls one rank of a run, at a moment that a test knows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::testing {

enum class Fault {
  kNone,
  kKilled,     // SIGKILL
  kStopped,    // SIGSTOP
  kExit0,      // a library below it calls exit
  kExit3,      // the same with an error
  kSegfault,   // ends by a signal of its own doing
  kException,  // something else of the rank fails
  kCutOff,     // its connections close under it
  kFullDisk,   // it can write no more
  kHungDisk,   // what it writes does not get done
  kSlow,       // late, but within the timeout: no fault
  kSkips,      // leaves an operation out
  kOtherCall,  // calls something else
};

// Throws std::out_of_range for no such name: "killed", "exit_0", ...
Fault FaultFromName(std::string_view name);

// Descriptors of the connections that this process has with others.
std::vector<int> Connections();

// Where, and on what, a fault strikes.
struct FaultPlace {
  std::string time_file;    // the moment goes here: seconds of the monotonic clock
  std::vector<int> spared;  // connections that kCutOff leaves open
  double timeout_s = 0;     // of the run
  int rank = 0;             // whose fault it is
};

// Does to this process what `fault` says; returns where the process lives on. What leaves the
// process whole and is done by its own calls (kSkips, kOtherCall) only tells the time.
void Strike(Fault fault, const FaultPlace& place);

}  // namespace tessera::testing
