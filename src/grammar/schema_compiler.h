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

// How values are written.
enum class ValueSpelling : std::uint8_t {
  kJson,
  kPython,  // but for True, False and None as JSON
  kBare,    // names without quotes, strings as they stand between control tokens, no white space
};

enum class RuleKind : std::uint8_t { kStringRule, kValueRule, kArrayRule, kObjectRule, kBreakRule };

// Writes the instances of one document's schemas into a rule book, which may hold other documents'.
// The book and the document outlive it, and it the book's build().
class SchemaCompiler {
 public:
  using State = Nfa::State;
  // A line's indent: spaces for each value that is open, or one tab.
  static constexpr int kIndent = 4;
  // Values that are nested so deep or deeper are written alike, so that those of recursive schemas
  // are few: a line there may have the indent of kDeepIndent values.
  static constexpr int kMaxDepth = 8;
  static constexpr int kDeepIndent = 16;

  // `where` names the document's root in messages. `quote`: of kBare, the bytes of the token around
  // strings.
  SchemaCompiler(RuleBook& book, const Json& document, std::string where,
                 const SchemaOptions& options, ValueSpelling spelling = ValueSpelling::kJson,
                 std::string quote = {})
      : book_(book),
        nfa_(book.nfa()),
        work_(book.work()),
        reader_(document, std::move(where), options.lenient, work_),
        options_(options),
        spelling_(spelling),
        quote_(std::move(quote)) {}

  const SchemaReader& reader() const { return reader_; }

  // A rule of the schema's instances, to be a root: where a nested value ends must be clear.
  std::uint32_t value_rule(const SchemaRef& schema) { return value_rule({schema}, 0); }
  // Adds an instance of the schema, which anything may follow.
  Result<State> instance(State from, const SchemaRef& schema);
  // The texts of the strings among the schema's instances, as compile_pattern() writes them.
  Result<Automaton> strings(const SchemaRef& schema, Spelling spelling);
  // After the book's build(): that each oneOf met excludes what it must.
  Status check_one_ofs();

 private:
  // In all of these, `depth` is how many objects and arrays are open around what is written, up to
  // kMaxDepth. `bundle`: of kValue, schemas that are not yet flattened.
  std::uint32_t rule(RuleKind kind, const Bundle& bundle, int depth);
  std::uint32_t value_rule(const std::vector<SchemaRef>& schemas, int depth) {
    return rule(RuleKind::kValueRule, schemas, depth);
  }
  // Of strings of which only the length is said.
  std::uint32_t string_rule(const Facts& facts);
  // A line break with at most the indent of the depth. One rule for all of a depth, so that they
  // are few states.
  std::uint32_t break_rule(int depth);
  Result<State> body(RuleKind kind, const Bundle& bundle, State from, int depth);
  Result<State> value(State from, const std::vector<SchemaRef>& schemas, int depth);
  Result<State> alternative(State from, const Bundle& bundle, int depth);
  Result<State> string(State from, const Facts& facts);
  Result<State> counted_string(State from, const Facts& facts);
  // `nesting`: within the literal.
  Result<State> literal(State from, const Json& value, bool whole, const std::string& where,
                        int depth, int nesting = 0);
  std::string_view constant(const Json& value) const;
  bool is_bare() const { return spelling_ == ValueSpelling::kBare; }
  Spelling spelling() const { return is_bare() ? Spelling::kPlain : Spelling::kJson; }
  // What is between the quotes is written by `inside`, from a state to a state.
  Result<State> in_quotes(State from, const std::string& quote, const auto& inside) {
    const Result<State> end = inside(nfa_.literal(from, quote));
    return end ? Result<State>(nfa_.literal(*end, quote)) : end;
  }
  Result<State> name(State from, const std::string& text, const std::string& where);
  // Any name of these.
  Result<State> name_of(State from, const std::optional<Automaton>& names);
  // The depth within a value. Without white space it is the same everywhere.
  int deeper(int depth) const { return is_bare() || depth == kMaxDepth ? depth : depth + 1; }
  // A line break with its indent, or nothing.
  State gap(State from, int depth);
  // A comma, and a space, a gap or nothing.
  State comma(State from, int depth);
  // A colon, and a space or nothing.
  State colon(State from);
  Result<State> array(State from, const Bundle& bundle, int depth);
  Result<State> object(State from, const Bundle& bundle, int depth);

  // A value with whether numbers in it are written without a fraction.
  using Listed = std::pair<const Json*, bool>;
  // All values of the schemas, each once; nothing where they are not few scalars.
  Result<std::optional<std::vector<Listed>>> few_values(const std::vector<SchemaRef>& schemas);
  // An array of the values in any order, none twice.
  Result<State> arrangements(State from, const std::vector<Listed>& values, const Counts& count,
                             int depth);
  // Takes away members whose names are not strings of the schema; whether none is missed.
  Result<bool> restrict_names(Members& members, const SchemaRef& names);
  // How many members must be counted: 0 and no limit where all objects have as many as they may.
  Result<Counts> members_to_count(const Bundle& bundle, const Facts& facts, const Members& members);

  RuleBook& book_;
  Nfa& nfa_;
  Work& work_;
  SchemaReader reader_;
  SchemaOptions options_;
  ValueSpelling spelling_;
  std::string quote_;
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
