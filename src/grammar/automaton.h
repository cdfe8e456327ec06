#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/work.h"

namespace dovetail::grammar {

// A deterministic pushdown automaton over bytes. In a state, a byte leads to a state, or asks for a
// call: push the call's return state and read the same byte from its start; where a final state
// has nothing for the byte, its return state is popped and reads it. Without calls it is a plain
// finite automaton. States from which no end can be reached are never targets.
struct Automaton {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kCallBit = 1U << 31U;
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max() / 2;
  static constexpr std::uint32_t kMaxFrames = 512;  // ways that take more are none

  struct Call {
    std::uint32_t start = 0;
    std::uint32_t after = 0;  // the return state
  };

  std::array<std::uint8_t, 256> class_of{};  // bytes of a class behave alike in every state
  std::uint32_t classes = 1;
  std::uint32_t start = 0;
  std::vector<std::uint32_t> next;  // [state][class]: kNone, a state, or kCallBit | call
  std::vector<std::uint8_t> is_final;
  std::vector<Call> calls;
  // Per state, how many more frames than now the cheapest way to its rule's end takes; kNever
  // where there is no such way within kMaxFrames.
  std::vector<std::uint32_t> need;

  std::size_t states() const { return is_final.size(); }
  std::uint32_t at(std::uint32_t state, std::uint8_t byte) const {
    return next[std::size_t{state} * classes + class_of[byte]];
  }
  bool empty() const { return need[start] == kNever; }
};

// The first and last byte of a control token in a text; none of them is in UTF-8.
constexpr std::uint8_t kControlBegin = 0xFF;
constexpr std::uint8_t kControlEnd = 0xFE;

// By state: whether it is inside of a control token, where no text can rest.
std::vector<bool> inside_control_tokens(const Automaton& automaton);

// Automaton::need where only classes with a true entry in `usable` can be read, and control tokens.
// Once `stop` is set, the result is incomplete.
std::vector<std::uint32_t> frames_needed(const Automaton& automaton,
                                         const std::vector<bool>& usable, StopFlag stop = nullptr);

// Fills `need` and takes out transitions to states from which no end can be reached. Once `stop` is
// set, the result is of no use.
void prune(Automaton& automaton, StopFlag stop = nullptr);

// Of two automata without calls: what both accept, and what only the first accepts. An error when
// that takes more than kMaxStates or the work that is left, naming `where`.
Result<Automaton> intersection(const Automaton& a, const Automaton& b, std::string_view where,
                               Work& work);
Result<Automaton> difference(const Automaton& a, const Automaton& b, std::string_view where,
                             Work& work);

// Whether an automaton without calls accepts `text`.
bool matches(const Automaton& automaton, std::string_view text);

}  // namespace dovetail::grammar
