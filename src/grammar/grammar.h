#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/work.h"

namespace dovetail::grammar {

struct Automaton;

// A control token that a grammar asks for.
struct ControlToken {
  std::string spelling;
  std::string where;  // for messages
};

struct SchemaOptions {
  // The reading of the specification: objects take members that the schema does not name unless
  // additionalProperties forbids them, and a keyword such as "minLength" says nothing of values of
  // other types. Otherwise members that the schema does not name are written only where it names
  // none at all or speaks of additionalProperties or patternProperties, and keywords for one type
  // alone imply that type. All that is written is valid by the specification either way.
  bool literal = false;
  // A keyword that cannot be kept is left out instead of refused, as if the schema did not have it;
  // Grammar::left_out() names it. What else is wrong stays an error.
  bool lenient = false;
};

// A language of texts: all texts that match a regular expression, all that are instances of a JSON
// schema written in one way, or those that a structure puts together of these, of literals and of
// control tokens (src/grammar/README.md says how). Immutable; copies share.
//
// What cannot be expressed exactly is an error that names the keyword by its JSON pointer, or the
// part of the regular expression by its byte offset; so is a schema without any instance. Time and
// memory are bounded whatever the input. Once a stop flag is set, from any thread, the call returns
// within milliseconds with an error.
class Grammar {
 public:
  // How many values may nest; a value is only opened if it can be closed within the bound.
  static constexpr std::uint32_t kMaxDepth = 512;  // Automaton::kMaxFrames

  static Result<Grammar> from_json_schema(const nlohmann::ordered_json& schema,
                                          const SchemaOptions& options = {},
                                          StopFlag stop = nullptr);
  // The whole text matches; see regex.h for what is supported.
  static Result<Grammar> from_regex(std::string_view pattern, StopFlag stop = nullptr);
  // The rule "root" of a grammar in llama.cpp's notation; see gbnf.h. Errors name the line.
  static Result<Grammar> from_gbnf(std::string_view text, StopFlag stop = nullptr);
  // A tree of parts. Strings in it are UTF-8, as in every JSON that was parsed.
  static Result<Grammar> from_structure(const nlohmann::ordered_json& structure,
                                        StopFlag stop = nullptr);
  // Any JSON object.
  static Grammar any_json();

  const Automaton& automaton() const { return *automaton_; }
  // The control tokens in it, of which each is written as control_token() (vocabulary.h).
  std::span<const ControlToken> control_tokens() const { return *control_tokens_; }
  // The keywords of lenient schemas that were left out, by JSON pointer.
  std::span<const std::string> left_out() const { return *left_out_; }

 private:
  explicit Grammar(Automaton automaton, std::vector<ControlToken> control_tokens = {},
                   std::vector<std::string> left_out = {});
  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const std::vector<ControlToken>> control_tokens_;
  std::shared_ptr<const std::vector<std::string>> left_out_;
};

}  // namespace dovetail::grammar
