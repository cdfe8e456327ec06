#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/nfa.h"
#include "grammar/work.h"

namespace dovetail::grammar {

// An Nfa under construction with its rules. The bodies of rules are built one after the other by
// build(), however deep values nest; building one may ask for more.
class RuleBook {
 public:
  // Adds a body that begins in the given state; gives its end.
  using Body = std::function<Result<Nfa::State>(Nfa::State)>;
  // What a rule is of: a kind, and addresses in documents or numbers that it speaks of.
  using Key = std::pair<std::uint32_t, std::vector<std::uintptr_t>>;

  // `where` begins the messages that name no rule.
  explicit RuleBook(Work& work, std::string where = "#")
      : work_(work), where_(std::move(where)), nfa_(kMaxNfaStates, work.stop()) {}

  Work& work() { return work_; }
  Nfa& nfa() { return nfa_; }

  // The number of the rule with this key. `body` is kept if the key is new.
  std::uint32_t rule(Key key, std::string_view where, Body body);
  // Builds all bodies. Errors: those of the bodies; too many states or rules.
  Status build();
  // By state, whether its rule's end can be reached. After build().
  std::vector<bool> productive() const;
  // Whether a piece of a rule from `from` to `to` has a text; `productive` is productive().
  bool has_text(Nfa::State from, Nfa::State to, const std::vector<bool>& productive) const;
  // The texts of `root`, after build(). Errors: as determinize().
  Result<Automaton> determinized(std::uint32_t root) const;

 private:
  Work& work_;
  std::string where_;
  Nfa nfa_;
  std::vector<Rule> rules_;
  std::vector<Body> bodies_;  // by rule
  std::map<Key, std::uint32_t> ids_;
};

}  // namespace dovetail::grammar
