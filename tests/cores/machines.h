#pragma once

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <vector>

#include "cores/executor.h"

namespace dovetail::cores {

inline constexpr TaskSpec kMatrix = {kMatrixTask, false, 1, 0};
inline constexpr TaskSpec kVector = {kVectorTask, false, 1, 0};
inline constexpr TaskSpec kMixed = {{1, 2, false}, false, 1, 0};

inline Topology topology(const char* text) { return Topology::parse(text).value(); }

inline Access access_of(BufferId buffer, AccessMode mode) { return {Region(buffer, 0, 8), mode}; }

inline void expect_submits(Executor& executor, const TaskSpec& spec, const TaskFunction& function,
                           const std::vector<Access>& accesses = {},
                           const std::vector<TaskNumber>& after = {}) {
  const auto task = executor.submit(spec, function, accesses, after);
  EXPECT_TRUE(task) << task.error().message;
}

// Topologies, and the threads that serve their lanes.
struct Machine {
  const char* topology;
  unsigned threads;
  bool caller_serves;

  friend std::ostream& operator<<(std::ostream& out, const Machine& machine) {
    return out << machine.topology << ", " << machine.threads << " threads, caller "
               << (machine.caller_serves ? "serves" : "submits");
  }
};

class OnMachines : public testing::TestWithParam<Machine> {
 protected:
  ExecutorOptions options() const {
    ExecutorOptions options;
    options.threads = GetParam().threads;
    options.caller_serves = GetParam().caller_serves;
    return options;
  }
  Topology machine() const { return topology(GetParam().topology); }
};

inline constexpr std::array kMachines = {
    Machine{"1x(1L)", 0, true},    Machine{"1x(2L)", 0, true},
    Machine{"1x(2L)", 1, true},    Machine{"1x(8L)", 3, true},
    Machine{"2x(1C2V)", 0, true},  Machine{"2x(1C2V)", 2, false},
    Machine{"1x(1C2V)", 1, false}, Machine{"1x(1C1V)+1x(2L)", 0, false}};

}  // namespace dovetail::cores
