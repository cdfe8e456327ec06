#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "schedule/scheduler.h"

namespace dovetail::laws {

enum class Verb : std::uint8_t { kAdd, kAdvance, kAhead, kCancel, kFinish, kDraft, kWithhold };

// Numbers are taken modulo what makes sense where they are used, so that every list of operations
// is a history, also after shrinking.
struct Operation {
  Verb verb = Verb::kAdvance;
  std::uint32_t a = 0, b = 0, c = 0;
};

struct History {
  schedule::SchedulerOptions options;
  schedule::StepCost cost;
  std::vector<Operation> operations;
};

// What happened in a history, or in many.
struct Tally {
  std::uint64_t histories = 0;
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t mixed = 0;  // steps
  std::uint64_t ahead = 0;  // plans with rows, made ahead
  std::uint64_t preempted = 0;
  std::uint64_t cached = 0;    // tokens found
  std::uint64_t drafted = 0;   // drafts computed
  std::uint64_t accepted = 0;  // of them
  std::uint64_t cancelled = 0;
  std::uint64_t in_flight = 0;  // cancelled with a row in flight
  std::uint64_t refused = 0;
  std::uint64_t turns = 0;  // steps in which a decoding sequence had no row
  void add(const Tally& other);
};

struct Verdict {
  std::vector<std::string> faults;
  Tally tally;
};

// Plays a history to its end, with a fake model, under the law checker. The token at position p of
// request r is r * 100000 + p, or that of a family of requests that begin alike; the fake model
// keeps a cache of tokens and positions and looks, before each row, whether all that the row may
// read is there and its own. `story`, where there is one, gets what happens, line by line.
// `compare`: every plan is also made by the reference scheduler, and must be the same.
Verdict play(const History& history, std::ostream* story = nullptr, bool compare = false);

// Options and story of a history, as readable lines.
void describe(const History& history, std::ostream& out);

// The history that a string of bytes stands for; every string stands for one. The first
// kHistoryHead bytes are the options, three further ones each an operation.
inline constexpr std::size_t kHistoryHead = 29;
History read_history(const std::uint8_t* data, std::size_t size);

}  // namespace dovetail::laws
