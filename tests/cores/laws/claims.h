#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

// Eight threads that take the blocks of one task, or of several: what tests ask of a ReadyRing, of
// a Handoff and of an Executor, and what the faults of mutation.h break.
namespace dovetail::cores {

// Told at once, on any thread, of the first thing that is wrong. With a fault there may be nothing
// to come back to.
using Notice = std::function<void(const std::string& what)>;

// What is wrong, if anything: a block that is not taken once, one that the task does not have, and
// where the order is known, blocks in another one.
std::optional<std::string> eight_take_from_ring(const Notice& notice = {});
std::optional<std::string> eight_take_from_handoff(const Notice& notice = {});

// Chains of tasks, each of which waits for all blocks of the one before it, on eight lanes:
// submitted, and of a recording. `limit`: nothing may stand still for so long; 0: no limit.
std::optional<std::string> eight_take_from_executor(const Notice& notice = {},
                                                    std::chrono::milliseconds limit = {});

}  // namespace dovetail::cores
