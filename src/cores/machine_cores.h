#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::cores {

// The physical cores of this machine that the process may use, in hwloc's order, but those that
// share an L3 cache follow each other.

// How many there are by L3 cache, in that order; nothing where the system does not say.
std::vector<std::uint32_t> cores_by_cache();

// From now on the calling thread runs on one of them alone: that with this number, modulo how many
// there are. False where the system does not say which there are, or does not let it: the thread
// runs where the system puts it.
bool stay_on_core(std::size_t number);

// The same, on any of those that share an L3 cache with that one.
bool stay_near_core(std::size_t number);

// Where a thread that works for a core stays.
enum class Binding : std::uint8_t {
  kNone,   // where the system puts it
  kCache,  // stay_near_core()
  kCore,   // stay_on_core()
};

// From now on the calling thread, which works for that core, stays there, and so do threads that it
// starts. False as above.
bool bind_thread(Binding binding, std::size_t core);

}  // namespace dovetail::cores
