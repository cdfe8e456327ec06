#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::cores {

// The physical cores of this machine that the process may use, in hwloc's order, but those that
// share an L3 cache follow each other.

// How many there are by L3 cache, in that order; nothing where the system does not say.
std::vector<std::uint32_t> cores_by_cache();

// Where a thread that works for a core stays.
enum class Binding : std::uint8_t {
  kNone,   // wherever the process may run
  kCache,  // on the cores that share an L3 cache with that one
  kCore,   // on that one
};

// From now on the thread, of this process, runs there alone; so do threads that it starts. The core
// is that with this number, modulo how many there are. False where the system does not say which
// there are, or does not let it: nothing has changed.
bool bind_thread(Binding binding, std::size_t core, pthread_t thread = pthread_self());

}  // namespace dovetail::cores
