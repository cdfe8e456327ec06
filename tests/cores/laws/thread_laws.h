#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dovetail::cores {

// What executors break of the laws on threads (of the first law that they do), with programs that
// are drawn by a seed. No clock has to tell: tasks wait for each other, so that a program ends only
// where lanes are given to them as promised, and the order of starts is counted where lanes make it
// certain.
//
// * Live frontier, whole resource: where all lanes have something to do, all of it runs at once;
//   what is pending moves to a lane that comes free; a mixed task or a gang starts when all of its
//   lanes are free, and takes none of them before.
// * Oldest first: of equal tasks, in the rings and through the dispatcher; of both kinds on a lane
//   that does both.
// * Bounded waiting: a task of one lane among mixed ones, a mixed one among those, a mixed one
//   among gangs.
//
// A task that waits longer than `limit` counts as one that waits for ever. Where an executor
// itself stands still, on_stall is told why, on some other thread, and this does not return.
std::vector<std::string> broken_on_threads(std::uint64_t seed, std::chrono::milliseconds limit,
                                           const std::function<void(const std::string&)>& on_stall);

}  // namespace dovetail::cores
