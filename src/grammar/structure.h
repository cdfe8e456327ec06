#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/work.h"

namespace dovetail::grammar {

struct Structure {
  Automaton automaton;
  std::vector<ControlToken> control_tokens;  // those of its parts
  std::vector<std::string> left_out;         // keywords of lenient schemas, by JSON pointer
};

// The texts of a tree of parts (README.md lists them). Errors name the part by its JSON pointer,
// and behind it what is wrong within the part's schema or expression by its own.
Result<Structure> compile_structure(const Json& structure, StopFlag stop = nullptr);

}  // namespace dovetail::grammar
