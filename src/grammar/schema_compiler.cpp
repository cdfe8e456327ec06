#include "grammar/schema_compiler.h"

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "grammar/determinize.h"
#include "grammar/regex.h"

namespace dovetail::grammar {
namespace {

// A character of a string of which only the length matters: in any of JSON's spellings.
constexpr std::string_view kCharacter =
    "(?:[^\"\\\\\\x00-\\x1f]|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|"
    "[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})))";
constexpr std::string_view kAnyCharacter = "[\\s\\S]";
constexpr std::string_view kBareName = "[A-Za-z0-9_.\\-]+";
constexpr int kMaxLiteralDepth = 64;

}  // namespace

std::uint32_t SchemaCompiler::rule(RuleKind kind, const Bundle& bundle, int depth) {
  // Any values are the same in all documents with one spelling.
  std::vector<std::uintptr_t> key = {static_cast<std::uintptr_t>(spelling_),
                                     static_cast<std::uintptr_t>(depth)};
  for (const Json* place : key_of(bundle)) key.push_back(reinterpret_cast<std::uintptr_t>(place));
  return book_.rule(
      {static_cast<std::uint32_t>(kind), std::move(key)}, bundle.empty() ? "#" : bundle[0].where,
      [this, kind, bundle, depth](State from) { return body(kind, bundle, from, depth); });
}

std::uint32_t SchemaCompiler::string_rule(const Facts& facts) {
  // Strings of one length are the same in all documents.
  const Counts& length = facts.length;
  std::vector<std::uintptr_t> key = {static_cast<std::uintptr_t>(is_bare()), length.min};
  if (length.max) key.push_back(*length.max);
  return book_.rule({static_cast<std::uint32_t>(RuleKind::kStringRule), std::move(key)},
                    facts.where, [this, facts](State from) { return counted_string(from, facts); });
}

std::uint32_t SchemaCompiler::break_rule(int depth) {
  const std::vector<std::uintptr_t> key = {static_cast<std::uintptr_t>(depth)};
  return book_.rule({static_cast<std::uint32_t>(RuleKind::kBreakRule), key}, "#",
                    [this, depth](State from) -> Result<State> {
                      const State to = nfa_.add_state();
                      const State line = nfa_.literal(from, "\n");
                      nfa_.nothing(line, to);
                      const auto indent = [&](std::string_view character, int most) {
                        State at = line;
                        for (int i = 0; i < most; ++i) {
                          at = nfa_.literal(at, character);
                          nfa_.nothing(at, to);
                        }
                      };
                      const int levels = depth < kMaxDepth ? depth : kDeepIndent;
                      indent(" ", kIndent * levels);
                      indent("\t", levels);
                      return to;
                    });
}

Result<SchemaCompiler::State> SchemaCompiler::body(RuleKind kind, const Bundle& bundle, State from,
                                                   int depth) {
  switch (kind) {
    case RuleKind::kStringRule:
    case RuleKind::kBreakRule:
      break;  // string_rule() and break_rule() have their own
    case RuleKind::kValueRule:
      return value(from, bundle, depth);
    case RuleKind::kArrayRule:
      return array(from, bundle, depth);
    case RuleKind::kObjectRule:
      return object(from, bundle, depth);
  }
  return fail(ErrorKind::kInternal, "an unknown kind of rule");
}

Result<SchemaCompiler::State> SchemaCompiler::instance(State from, const SchemaRef& schema) {
  const auto bundles = reader_.flatten({schema});
  if (!bundles) return fail(bundles.error());
  const State to = nfa_.add_state();
  for (const Bundle& bundle : *bundles) {
    const auto end = alternative(from, bundle, 0);
    if (!end) return end;
    nfa_.nothing(*end, to);
  }
  return to;
}

Result<Automaton> SchemaCompiler::strings(const SchemaRef& schema, Spelling spelling) {
  const auto bundles = reader_.flatten({schema});
  if (!bundles) return fail(bundles.error());
  Nfa nfa(kMaxNfaStates, work_.stop());
  const State start = nfa.add_state();
  const State end = nfa.add_state();
  for (const Bundle& bundle : *bundles) {
    const auto facts = read_facts(bundle, options_, work_);
    if (!facts) return fail(facts.error());
    if ((facts->types & kString) == 0) continue;
    if (!facts->values) {
      const auto language = string_language(*facts, spelling, work_);
      if (!language) return language;
      nfa.nothing(nfa.copy(start, *language), end);
      continue;
    }
    for (const Json* value : *facts->values) {
      if (!value->is_string()) continue;
      const auto good = allows(*facts, *value, work_);
      if (!good) return fail(good.error());
      if (!*good) continue;
      const auto& text = value->get_ref<const std::string&>();
      nfa.nothing(nfa.literal(start, spelling == Spelling::kJson ? write_json_string(text) : text),
                  end);
    }
  }
  const std::array<Rule, 1> rules = {{{start, end, schema.where}}};
  return determinize(nfa, rules, 0, schema.where, work_);
}

Status SchemaCompiler::check_one_ofs() {
  for (std::size_t i = 0; i < reader_.one_ofs().size(); ++i) {
    const OneOf one_of = reader_.one_ofs()[i];
    const Status good = check_one_of(reader_, one_of, work_);
    if (good) continue;
    const Status left = reader_.leave_out(one_of.branches.where, good.error());
    if (!left) return left;
  }
  return {};
}

// A value for which all of `schemas` hold.
Result<SchemaCompiler::State> SchemaCompiler::value(State from,
                                                    const std::vector<SchemaRef>& schemas,
                                                    int depth) {
  const auto bundles = reader_.flatten(schemas);
  if (!bundles) return fail(bundles.error());
  const State to = nfa_.add_state();
  for (const Bundle& bundle : *bundles) {
    // Any value, but for the rule that is any value itself.
    if (bundle.empty() && !schemas.empty()) {
      nfa_.nothing(nfa_.call(from, rule(RuleKind::kValueRule, {}, depth)), to);
      continue;
    }
    const auto end = alternative(from, bundle, depth);
    if (!end) return end;
    nfa_.nothing(*end, to);
  }
  return to;
}

Result<SchemaCompiler::State> SchemaCompiler::alternative(State from, const Bundle& bundle,
                                                          int depth) {
  const auto facts = read_facts(bundle, options_, work_);
  if (!facts) return fail(facts.error());
  const State to = nfa_.add_state();
  if (facts->values) {
    for (const Json* value : *facts->values) {
      const auto good = allows(*facts, *value, work_);
      if (!good) return fail(good.error());
      if (!*good) continue;
      const auto end = literal(from, *value, (facts->types & kFraction) == 0, facts->where, depth);
      if (!end) return end;
      nfa_.nothing(*end, to);
    }
    return to;
  }
  const auto has = [&](std::uint32_t type) { return (facts->types & type) != 0; };
  if (has(kNull)) nfa_.nothing(nfa_.literal(from, constant(nullptr)), to);
  if (has(kBoolean)) {
    nfa_.nothing(nfa_.literal(from, constant(true)), to);
    nfa_.nothing(nfa_.literal(from, constant(false)), to);
  }
  if (has(kNumber)) {
    const auto language = compile_range(facts->numbers, facts->where, work_);
    if (!language) return fail(language.error());
    nfa_.nothing(nfa_.copy(from, *language), to);
  }
  if (has(kString)) {
    const auto end = string(from, *facts);
    if (!end) return end;
    nfa_.nothing(*end, to);
  }
  if (has(kArray)) nfa_.nothing(nfa_.call(from, rule(RuleKind::kArrayRule, bundle, depth)), to);
  if (has(kObject)) nfa_.nothing(nfa_.call(from, rule(RuleKind::kObjectRule, bundle, depth)), to);
  return to;
}

Result<SchemaCompiler::State> SchemaCompiler::string(State from, const Facts& facts) {
  const Counts& length = facts.length;
  if (!facts.patterns.empty() || !facts.excluded.empty()) {
    const auto language = string_language(facts, spelling(), work_);
    if (!language) return fail(language.error());
    // JSON's spelling has its quotes.
    return in_quotes(from, quote_,
                     [&](State own) -> Result<State> { return nfa_.copy(own, *language); });
  }
  if (length.max && *length.max < length.min) return nfa_.add_state();
  return nfa_.call(from, string_rule(facts));
}

Result<SchemaCompiler::State> SchemaCompiler::counted_string(State from, const Facts& facts) {
  const Counts& length = facts.length;
  const std::string_view character = is_bare() ? kAnyCharacter : kCharacter;
  const auto regex =
      parse_regex(length.max ? fmt::format("{}{{{},{}}}", character, length.min, *length.max)
                             : fmt::format("{}{{{},}}", character, length.min));
  if (!regex) {
    return fail(ErrorKind::kUnsupported, "{}: a length beyond what is supported: {}", facts.where,
                regex.error().message);
  }
  const auto end = in_quotes(from, is_bare() ? quote_ : "\"", [&](State own) -> Result<State> {
    return add_regex(nfa_, own, *regex, Spelling::kPlain, Span::kWhole);
  });
  if (nfa_.full()) {
    return fail(ErrorKind::kUnsupported,
                "{}: \"minLength\" or \"maxLength\" needs more than {} states", facts.where,
                kMaxNfaStates);
  }
  return end;
}

Result<SchemaCompiler::State> SchemaCompiler::literal(State from, const Json& value, bool whole,
                                                      const std::string& where, int depth,
                                                      int nesting) {
  if (nesting > kMaxLiteralDepth) {
    return fail(ErrorKind::kUnsupported, "{}: a value that nests more than {} levels", where,
                kMaxLiteralDepth);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return nfa_.literal(from, is_bare() ? quote_ + text + quote_ : write_json_string(text));
  }
  if (value.is_array() || value.is_object()) {
    const int inside = deeper(depth);
    State at = gap(nfa_.literal(from, value.is_array() ? "[" : "{"), inside);
    bool first = true;
    for (const auto& [key, member] : value.items()) {
      if (!first) at = comma(at, inside);
      first = false;
      if (value.is_object()) {
        const auto named = name(at, key, where);
        if (!named) return named;
        at = colon(*named);
      }
      const auto end = literal(at, member, false, where, inside, nesting + 1);
      if (!end) return end;
      at = *end;
    }
    if (!value.empty()) at = gap(at, depth);
    return nfa_.literal(at, value.is_array() ? "]" : "}");
  }
  if (value.is_number_float() && whole) {
    const Decimal number = decimal_of(value);
    return nfa_.literal(from, (number.negative ? "-" : "") + number.whole);
  }
  if (value.is_null() || value.is_boolean()) return nfa_.literal(from, constant(value));
  return nfa_.literal(from, value.dump());
}

std::string_view SchemaCompiler::constant(const Json& value) const {
  const bool python = spelling_ == ValueSpelling::kPython;
  if (value.is_null()) return python ? "None" : "null";
  if (value.get<bool>()) return python ? "True" : "true";
  return python ? "False" : "false";
}

Result<SchemaCompiler::State> SchemaCompiler::name(State from, const std::string& text,
                                                   const std::string& where) {
  if (!is_bare()) return nfa_.literal(from, write_json_string(text));
  const auto bare = compile_pattern(kBareName, Span::kWhole, Spelling::kPlain, where, work_);
  if (!bare) return fail(bare.error());
  if (!matches(*bare, text)) {
    return fail(
        ErrorKind::kUnsupported,
        "{}: the name \"{}\" cannot be written without quotes, as this model's calls have it",
        where, text);
  }
  return nfa_.literal(from, text);
}

Result<SchemaCompiler::State> SchemaCompiler::name_of(State from,
                                                      const std::optional<Automaton>& names) {
  if (!is_bare()) return names ? nfa_.copy(from, *names) : nfa_.call(from, string_rule({}));
  auto bare = compile_pattern(kBareName, Span::kWhole, Spelling::kPlain, "#", work_);
  if (bare && names) bare = intersection(*bare, *names, "#", work_);
  if (!bare) return fail(bare.error());
  return nfa_.copy(from, *bare);
}

SchemaCompiler::State SchemaCompiler::gap(State from, int depth) {
  if (is_bare()) return from;
  const State to = nfa_.call(from, break_rule(depth));
  nfa_.nothing(from, to);
  return to;
}

SchemaCompiler::State SchemaCompiler::comma(State from, int depth) {
  const State tight = nfa_.literal(from, ",");
  if (is_bare()) return tight;
  const State to = gap(tight, depth);
  nfa_.nothing(nfa_.literal(tight, " "), to);
  return to;
}

SchemaCompiler::State SchemaCompiler::colon(State from) {
  const State tight = nfa_.literal(from, ":");
  if (is_bare()) return tight;
  const State to = nfa_.literal(tight, " ");
  nfa_.nothing(tight, to);
  return to;
}

namespace {

Result<CompiledSchema> compile_within(const Json& schema, const SchemaOptions& options,
                                      Work& work) {
  RuleBook book(work);
  SchemaCompiler compiler(book, schema, "#", options);
  const std::uint32_t root = compiler.value_rule(compiler.reader().root());
  if (const Status built = book.build(); !built) return fail(built.error());
  if (const Status good = compiler.check_one_ofs(); !good) return fail(good.error());
  auto out = book.determinized(root);
  if (!out) return fail(std::move(out.error()));
  if (out->empty()) {
    return fail(ErrorKind::kInvalid,
                "#: no value satisfies the schema (with at most {} nested values)",
                Automaton::kMaxFrames);
  }
  const std::set<std::string>& left_out = compiler.reader().left_out();
  return CompiledSchema{*std::move(out), {left_out.begin(), left_out.end()}};
}

}  // namespace

Result<CompiledSchema> compile_schema(const Json& schema, const SchemaOptions& options,
                                      StopFlag stop) {
  return with_counts_that_fit(stop,
                              [&](Work& work) { return compile_within(schema, options, work); });
}

}  // namespace dovetail::grammar
