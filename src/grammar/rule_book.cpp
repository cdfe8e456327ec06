#include "grammar/rule_book.h"

#include "grammar/determinize.h"

namespace dovetail::grammar {
namespace {

constexpr std::size_t kMaxRules = 1U << 14U;

}  // namespace

std::uint32_t RuleBook::rule(Key key, std::string_view where, Body body) {
  const auto [at, fresh] =
      ids_.try_emplace(std::move(key), static_cast<std::uint32_t>(rules_.size()));
  if (fresh) {
    rules_.push_back({nfa_.add_state(), 0, std::string(where)});
    bodies_.push_back(std::move(body));
  }
  return at->second;
}

Status RuleBook::build() {
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    if (const Status enough = work_.check("#"); !enough) return fail(enough.error());
    if (bodies_.size() > kMaxRules || nfa_.full()) {
      return fail(ErrorKind::kUnsupported, "#: needs more than {} states or {} kinds of values",
                  kMaxNfaStates, kMaxRules);
    }
    const Body body = std::move(bodies_[i]);
    const auto end = body(rules_[i].start);
    if (!end) return fail(end.error());
    rules_[i].end = *end;
  }
  return {};
}

Result<Automaton> RuleBook::determinized(std::uint32_t root) const {
  return determinize(nfa_, rules_, root, "#", work_);
}

}  // namespace dovetail::grammar
