#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/nfa.h"
#include "grammar/work.h"

namespace dovetail::grammar {

// The subset construction over rules. A call stays a call where its bytes tell it apart; calls that
// begin alike are merged into one where the same follows, and copied in place otherwise, each with
// what follows it, until they differ. The result accepts exactly the text of `root`, but for the
// bound on the stack that its user sets. Errors: `where` needs more than the bounds; alternatives
// that stay alike through kMaxInlined nested rules. No rule but the root may match nothing.
Result<Automaton> determinize(const Nfa& nfa, std::span<const Rule> rules, std::uint32_t root,
                              std::string_view where, Work& work);

constexpr std::uint32_t kMaxInlined = 24;

}  // namespace dovetail::grammar
