#pragma once

#include <functional>
#include <string>

#include "engine/comm/communicator.h"

namespace tessera::engine {

// Before an error that every rank throws: a rank that goes with its error ends what others still
// wait for, so none goes before all know. Collective.
void MeetBeforeFailing(Communicator& world);

// Runs `work`, which must not communicate, on every rank and waits for all. When it fails on any
// rank, all ranks throw once every rank is done, so that nobody waits for a failed one and the
// caller may clean up: the failed ranks their own exception, the others one with the rank and
// message of the lowest failed one, a base::ConfigError if that is one, else a base::SystemError.
// `what` goes before that message.
void RunOnAllRanks(Communicator& world, const std::string& what, const std::function<void()>& work);

// The same with `work` on rank 0 alone.
void RunOnFirstRank(Communicator& world, const std::string& what,
                    const std::function<void()>& work);

// The text of rank `root`, on every rank. Collective.
std::string BroadcastText(Communicator& world, std::string text, int root);

// TemporarySuffix() of rank 0, on every rank. Collective.
std::string SharedSuffix(Communicator& world);

}  // namespace tessera::engine
