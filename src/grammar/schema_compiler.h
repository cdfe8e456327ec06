#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/rule_book.h"
#include "grammar/schema_facts.h"
#include "grammar/schema_reader.h"

namespace dovetail::grammar {

// How null, true and false are written.
enum class Constants : std::uint8_t { kJson, kPython };

enum class RuleKind : std::uint8_t { kStringRule, kValueRule, kArrayRule, kObjectRule, kBreakRule };

// Writes the instances of one document's schemas into a rule book, which may hold other documents'.
// The book and the document outlive it, and it the book's build().
class SchemaCompiler {
 public:
  using State = Nfa::State;
  static constexpr int kMaxIndent = 64;

  // `where` names the document's root in messages.
  SchemaCompiler(RuleBook& book, const Json& document, std::string where,
                 const SchemaOptions& options, Constants constants = Constants::kJson)
      : book_(book),
        nfa_(book.nfa()),
        work_(book.work()),
        reader_(document, std::move(where), options.lenient, work_),
        options_(options),
        constants_(constants) {}

  const SchemaReader& reader() const { return reader_; }

  // A rule of the schema's instances, to be a root: where a nested value ends must be clear.
  std::uint32_t value_rule(const SchemaRef& schema) { return value_rule(std::vector{schema}); }
  // Adds an instance of the schema, which anything may follow.
  Result<State> instance(State from, const SchemaRef& schema);
  // The texts of the strings among the schema's instances, as compile_pattern() writes them.
  Result<Automaton> strings(const SchemaRef& schema, Spelling spelling);
  // After the book's build(): that each oneOf met excludes what it must.
  Status check_one_ofs();

 private:
  // `bundle`: of kValue, schemas that are not yet flattened.
  std::uint32_t rule(RuleKind kind, const Bundle& bundle);
  std::uint32_t value_rule(const std::vector<SchemaRef>& schemas) {
    return rule(RuleKind::kValueRule, schemas);
  }
  // Of strings of which only the length is said.
  std::uint32_t string_rule(const Facts& facts);
  // A line break and up to kMaxIndent spaces and tabs. One rule for all, so that they are few
  // states.
  std::uint32_t break_rule();
  Result<State> body(RuleKind kind, const Bundle& bundle, State from);
  Result<State> value(State from, const std::vector<SchemaRef>& schemas);
  Result<State> alternative(State from, const Bundle& bundle);
  Result<State> string(State from, const Facts& facts);
  Result<State> counted_string(State from, const Facts& facts);
  Result<State> literal(State from, const Json& value, bool whole, const std::string& where,
                        int depth);
  std::string_view constant(const Json& value) const;
  // A line break with the indent behind it, or nothing.
  State gap(State from);
  // A comma or colon, and a space, a gap or nothing.
  State separator(State from, std::string_view mark);
  Result<State> array(State from, const Bundle& bundle);
  Result<State> object(State from, const Bundle& bundle);

  // A value with whether numbers in it are written without a fraction.
  using Listed = std::pair<const Json*, bool>;
  // All values of the schemas, each once; nothing where they are not few scalars.
  Result<std::optional<std::vector<Listed>>> few_values(const std::vector<SchemaRef>& schemas);
  // An array of the values in any order, none twice.
  Result<State> arrangements(State from, const std::vector<Listed>& values, const Counts& count);
  // Takes away members whose names are not strings of the schema; whether none is missed.
  Result<bool> restrict_names(Members& members, const SchemaRef& names);
  // How many members must be counted: 0 and no limit where all objects have as many as they may.
  Result<Counts> members_to_count(const Bundle& bundle, const Facts& facts, const Members& members);

  RuleBook& book_;
  Nfa& nfa_;
  Work& work_;
  SchemaReader reader_;
  SchemaOptions options_;
  Constants constants_;
};

struct CompiledSchema {
  Automaton automaton;
  std::vector<std::string> left_out;  // keywords, by JSON pointer
};

// A schema's instances; errors as for Grammar::from_json_schema().
Result<CompiledSchema> compile_schema(const Json& schema, const SchemaOptions& options,
                                      StopFlag stop = nullptr);

// Checks that no value can satisfy two branches of the given oneOf; an error that names them if
// that cannot be shown.
Status check_one_of(SchemaReader& reader, const OneOf& one_of, Work& work);

}  // namespace dovetail::grammar
