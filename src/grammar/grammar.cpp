#include "grammar/grammar.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/gbnf.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"
#include "grammar/structure.h"

namespace dovetail::grammar {

static_assert(Grammar::kMaxDepth == Automaton::kMaxFrames);

Grammar::Grammar(Automaton automaton, std::vector<ControlToken> control_tokens,
                 std::vector<std::string> left_out)
    : automaton_(std::make_shared<const Automaton>(std::move(automaton))),
      control_tokens_(std::make_shared<const std::vector<ControlToken>>(std::move(control_tokens))),
      left_out_(std::make_shared<const std::vector<std::string>>(std::move(left_out))) {}

Result<Grammar> Grammar::from_json_schema(const nlohmann::ordered_json& schema,
                                          const SchemaOptions& options, StopFlag stop) {
  auto compiled = compile_schema(schema, options, stop);
  if (!compiled) return fail(std::move(compiled.error()));
  return Grammar(std::move(compiled->automaton), {}, std::move(compiled->left_out));
}

Result<Grammar> Grammar::from_regex(std::string_view pattern, StopFlag stop) {
  Work work(stop);
  auto automaton = compile_pattern(pattern, Span::kWhole, Spelling::kPlain, "regex", work);
  if (!automaton) return fail(std::move(automaton.error()));
  if (automaton->empty()) {
    return fail(ErrorKind::kInvalid, "regex: no text matches");
  }
  return Grammar(std::move(*automaton));
}

Result<Grammar> Grammar::from_gbnf(std::string_view text, StopFlag stop) {
  auto automaton = compile_gbnf(text, stop);
  if (!automaton) return fail(std::move(automaton.error()));
  return Grammar(std::move(*automaton));
}

Result<Grammar> Grammar::from_structure(const nlohmann::ordered_json& structure, StopFlag stop) {
  auto compiled = compile_structure(structure, stop);
  if (!compiled) return fail(std::move(compiled.error()));
  return Grammar(std::move(compiled->automaton), std::move(compiled->control_tokens),
                 std::move(compiled->left_out));
}

Grammar Grammar::any_json() {
  auto compiled = compile_schema({{"type", "object"}}, {});
  if (!compiled) std::abort();  // a constant
  return Grammar(std::move(compiled->automaton));
}

}  // namespace dovetail::grammar
