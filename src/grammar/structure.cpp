#include "grammar/structure.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/determinize.h"
#include "grammar/mutation.h"
#include "grammar/regex.h"
#include "grammar/rule_book.h"
#include "grammar/schema_compiler.h"
#include "grammar/vocabulary.h"

namespace dovetail::grammar {
namespace {

constexpr int kMaxPartDepth = 64;
constexpr std::uint32_t kRootRule = 1000;  // no kind of a schema's rules

using State = Nfa::State;
using Marks = std::vector<std::string>;  // ascending, each once

// Whether two occurrences can overlap: whether a beginning is an end, too (Knuth, Morris, Pratt).
bool overlaps_itself(std::string_view mark) {
  std::vector<std::size_t> border(mark.size(), 0);
  for (std::size_t i = 1; i < mark.size(); ++i) {
    std::size_t size = border[i - 1];
    while (size > 0 && mark[i] != mark[size]) size = border[size - 1];
    border[i] = mark[i] == mark[size] ? size + 1 : 0;
  }
  return border.back() > 0;
}

class StructureCompiler {
 public:
  StructureCompiler(const Json& structure, Work& work)
      : root_{&structure, "#"}, work_(work), book_(work_) {}

  Result<Structure> compile() {
    const std::uint32_t root = book_.rule({kRootRule, {}}, root_.where,
                                          [this](State from) { return part(from, root_, 0); });
    if (const Status built = book_.build(); !built) return fail(built.error());
    for (const auto& [place, schemas] : schemas_) {
      if (const Status good = schemas->check_one_ofs(); !good) return fail(good.error());
    }
    auto automaton = book_.determinized(root);
    if (!automaton) return fail(automaton.error());
    // A part that nothing satisfies must not go unnoticed where there are others.
    const std::vector<bool> productive = book_.productive();
    for (const auto& [place, leaf] : leaves_) {
      if (work_.stopped()) return fail(work_.check("#").error());
      if (book_.has_text(leaf.from, leaf.to, productive)) continue;
      return fail(ErrorKind::kInvalid, "{}: no text is one of this part", leaf.where);
    }
    if (automaton->empty()) {
      return fail(ErrorKind::kInvalid,
                  "#: no text has this structure (with at most {} nested values)",
                  Automaton::kMaxFrames);
    }
    std::set<std::string> left_out = std::move(left_out_);
    for (const auto& [place, schemas] : schemas_) {
      left_out.insert(schemas->reader().left_out().begin(), schemas->reader().left_out().end());
    }
    return Structure{
        *std::move(automaton), std::move(control_tokens_), {left_out.begin(), left_out.end()}};
  }

 private:
  struct Leaf {
    State from;
    State to;
    std::string where;
  };
  struct Kind {
    std::string_view name;
    std::array<std::string_view, 5> beside;  // other members that such a part may have
    Result<State> (StructureCompiler::*add)(State from, const SchemaRef& part, int depth);
  };
  static constexpr std::array<Kind, 10> kinds() {
    return {{{"literal", {}, &StructureCompiler::literal},
             {"token", {}, &StructureCompiler::token},
             {"free", {}, &StructureCompiler::free},
             {"schema", {"at", "spelling", "quote", "lenient", "name"}, &StructureCompiler::schema},
             {"raw", {"at", "without", "lenient", "name"}, &StructureCompiler::raw},
             {"regex", {}, &StructureCompiler::regex},
             {"sequence", {}, &StructureCompiler::sequence},
             {"choice", {}, &StructureCompiler::choice},
             {"repeat", {"min", "max", "at", "lenient", "name"}, &StructureCompiler::repeat},
             {"optional", {}, &StructureCompiler::optional}}};
  }

  // Adds a part from a state that others may begin in, too.
  Result<State> part(State from, const SchemaRef& part, int depth) {
    static constexpr auto kKinds = kinds();
    work_.spend(10);
    if (const Status enough = work_.check(part.where); !enough) return fail(enough.error());
    if (depth > kMaxPartDepth) {
      return fail(ErrorKind::kUnsupported, "{}: parts nest deeper than {} levels", part.where,
                  kMaxPartDepth);
    }
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& known) {
      return part.find(known.name) != nullptr;
    });
    if (kind == kKinds.end()) {
      return fail(ErrorKind::kInvalid,
                  "{}: a part must be an object with one of \"literal\", \"token\", \"free\", "
                  "\"schema\", \"raw\", \"regex\", \"sequence\", \"choice\", \"repeat\" and "
                  "\"optional\"",
                  part.where);
    }
    for (const auto& [name, value] : part.at->items()) {
      if (name != kind->name && (name.empty() || std::find(kind->beside.begin(), kind->beside.end(),
                                                           name) == kind->beside.end())) {
        return fail(ErrorKind::kInvalid, "{}: a part with \"{}\" has no \"{}\"", part.where,
                    kind->name, name);
      }
    }
    return (this->*kind->add)(from, part, depth);
  }

  Result<State> literal(State from, const SchemaRef& part, int /*depth*/) {
    const auto value = text(part.child("literal"));
    if (!value) return fail(value.error());
    return book_.nfa().literal(from, *value);
  }

  Result<State> token(State from, const SchemaRef& part, int /*depth*/) {
    const auto bytes = token_bytes(part.child("token"));
    if (!bytes) return fail(bytes.error());
    return book_.nfa().literal(from, *bytes);
  }

  // The bytes of a control token, which the grammar then asks for.
  Result<std::string> token_bytes(const SchemaRef& at) {
    const auto spelling = text(at);
    if (!spelling) return fail(spelling.error());
    if (spelling->empty()) {
      return fail(ErrorKind::kInvalid, "{}: must be the spelling of a control token", at.where);
    }
    const bool known =
        std::any_of(control_tokens_.begin(), control_tokens_.end(),
                    [&](const ControlToken& token) { return token.spelling == *spelling; });
    if (!known) control_tokens_.push_back({std::string(*spelling), at.where});
    return control_token(*spelling);
  }

  Result<State> free(State from, const SchemaRef& part, int /*depth*/) {
    const auto marks = this->marks(part.child("free"));
    if (!marks) return fail(marks.error());
    const auto language = texts_without(mutated(Mutant::kFreeHoldsMarks) ? Marks() : *marks);
    if (!language) return fail(language.error());
    return book_.nfa().copy(from, **language);
  }

  Result<State> schema(State from, const SchemaRef& part, int /*depth*/) {
    const auto spelling = spelling_of(part);
    if (!spelling) return fail(spelling.error());
    const bool bare = *spelling == ValueSpelling::kBare;
    if (bare != (part.find("quote") != nullptr)) {
      return fail(ErrorKind::kInvalid,
                  "{}: \"quote\" must be there with the spelling \"bare\", and with that alone",
                  part.where);
    }
    const auto quote = bare ? token_bytes(part.child("quote")) : Result<std::string>("");
    if (!quote) return fail(quote.error());
    const auto schemas = compiler_of(part, "schema", *spelling, *quote);
    if (!schemas) return fail(schemas.error());
    const auto at = schema_at(part, **schemas);
    if (!at) return fail(at.error());
    return leaf(from, part, [&](State own) { return (*schemas)->instance(own, *at); });
  }

  static Result<ValueSpelling> spelling_of(const SchemaRef& part) {
    const Json* name = part.find("spelling");
    if (name == nullptr || *name == Json("json")) return ValueSpelling::kJson;
    if (*name == Json("python")) return ValueSpelling::kPython;
    if (*name == Json("bare")) return ValueSpelling::kBare;
    return fail(ErrorKind::kInvalid, "{}/spelling: must be \"json\", \"python\" or \"bare\"",
                part.where);
  }

  Result<State> raw(State from, const SchemaRef& part, int /*depth*/) {
    auto& known = raw_[part.at];
    if (!known) {
      const auto schemas = compiler_of(part, "raw", ValueSpelling::kJson);
      if (!schemas) return fail(schemas.error());
      const auto at = schema_at(part, **schemas);
      if (!at) return fail(at.error());
      auto language = (*schemas)->strings(*at, Spelling::kPlain);
      if (language && part.find("without") != nullptr) {
        const auto marks = this->marks(part.child("without"));
        if (!marks) return fail(marks.error());
        const auto free = texts_without(*marks);
        if (!free) return fail(free.error());
        language = intersection(*language, **free, part.where, work_);
      }
      if (!language) return fail(language.error());
      if (language->empty()) {
        return fail(ErrorKind::kInvalid, "{}: no string satisfies the schema", part.where);
      }
      known = *std::move(language);
    }
    return book_.nfa().copy(from, *known);
  }

  Result<State> regex(State from, const SchemaRef& part, int /*depth*/) {
    const SchemaRef at = part.child("regex");
    const auto pattern = text(at);
    if (!pattern) return fail(pattern.error());
    const auto parsed = parse_regex(*pattern);
    if (!parsed) return fail(parsed.error().kind, "{}: {}", at.where, parsed.error().message);
    return leaf(from, part, [&](State own) -> Result<State> {
      return add_regex(book_.nfa(), own, *parsed, Spelling::kPlain, Span::kWhole);
    });
  }

  // A part with a start of its own, of which it can be said whether it has a text.
  Result<State> leaf(State from, const SchemaRef& part, const auto& add) {
    const State own = book_.nfa().add_state();
    book_.nfa().nothing(from, own);
    const Result<State> to = add(own);
    if (to) leaves_.try_emplace(part.at, Leaf{own, *to, part.where});
    return to;
  }

  Result<State> sequence(State from, const SchemaRef& part, int depth) {
    const SchemaRef parts = part.child("sequence");
    if (!parts.at->is_array()) {
      return fail(ErrorKind::kInvalid, "{}: must be a list of parts", parts.where);
    }
    for (std::size_t i = 0; i < parts.at->size(); ++i) {
      const auto end = this->part(from, parts.child(i), depth + 1);
      if (!end) return end;
      from = *end;
    }
    return from;
  }

  Result<State> choice(State from, const SchemaRef& part, int depth) {
    const SchemaRef parts = part.child("choice");
    if (!parts.at->is_array() || parts.at->empty()) {
      return fail(ErrorKind::kInvalid, "{}: must be a list of one part or more", parts.where);
    }
    const State to = book_.nfa().add_state();
    for (std::size_t i = 0; i < parts.at->size(); ++i) {
      const auto end = this->part(from, parts.child(i), depth + 1);
      if (!end) return end;
      book_.nfa().nothing(*end, to);
    }
    return to;
  }

  Result<State> optional(State from, const SchemaRef& part, int depth) {
    return repeated(from, part.child("optional"), 0, 1, depth);
  }

  Result<State> repeat(State from, const SchemaRef& part, int depth) {
    const auto min = count(part, "min");
    if (!min) return fail(min.error());
    const auto max = count(part, "max");
    if (!max) return fail(max.error());
    if (*max && **max < min->value_or(0)) {
      return fail(ErrorKind::kInvalid, "{}/max: {} is less than \"min\", {}", part.where, **max,
                  **min);
    }
    const auto lenient = flag(part, "lenient");
    if (!lenient) return fail(lenient.error());
    // Of an array, whose place in its document is named.
    const auto kept = [&](std::optional<std::uint64_t> count, std::string_view keyword) {
      if (!count || !*lenient || work_.keeps(*count)) return count;
      const Json* name = part.find("name");
      const Json* at = part.find("at");
      const auto text = [](const Json* value, const std::string& otherwise) {
        return value != nullptr && value->is_string() ? value->get<std::string>() : otherwise;
      };
      left_out_.insert(fmt::format("{}: #{}/{}", text(name, part.where), text(at, ""), keyword));
      return std::optional<std::uint64_t>();
    };
    return repeated(from, part.child("repeat"), kept(*min, "minItems").value_or(0),
                    kept(*max, "maxItems"), depth);
  }

  Result<State> repeated(State from, const SchemaRef& part, std::uint64_t min,
                         std::optional<std::uint64_t> max, int depth) {
    Nfa& nfa = book_.nfa();
    // Every copy takes a state of its own, so that the bound on states ends each loop.
    const auto copy = [&](State at) {
      const State own = nfa.add_state();
      nfa.nothing(at, own);
      return this->part(own, part, depth + 1);
    };
    for (std::uint64_t i = 0; i < min && !nfa.full(); ++i) {
      const auto end = copy(from);
      if (!end) return end;
      from = *end;
    }
    const State to = nfa.add_state();
    if (!max) {
      const State again = nfa.add_state();
      nfa.nothing(from, again);
      const auto end = this->part(again, part, depth + 1);
      if (!end) return end;
      nfa.nothing(*end, again);
      nfa.nothing(again, to);
      return to;
    }
    nfa.nothing(from, to);
    for (std::uint64_t i = min; i < *max && !nfa.full(); ++i) {
      const auto end = copy(from);
      if (!end) return end;
      from = *end;
      nfa.nothing(from, to);
    }
    return to;
  }

  Result<std::optional<std::uint64_t>> count(const SchemaRef& part, std::string_view name) const {
    const Json* value = part.find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_unsigned()) {
      return fail(ErrorKind::kInvalid, "{}/{}: must be a whole number, 0 or more", part.where,
                  name);
    }
    return value->get<std::uint64_t>();
  }

  // A string, which must be UTF-8.
  Result<std::string_view> text(const SchemaRef& at) {
    if (!at.at->is_string()) return fail(ErrorKind::kInvalid, "{}: must be a string", at.where);
    const std::string_view text = at.at->get_ref<const std::string&>();
    work_.spend(text.size());
    const auto any = texts_without({});
    if (!any) return fail(any.error());
    if (!matches(**any, text)) return fail(ErrorKind::kInvalid, "{}: is not UTF-8", at.where);
    return text;
  }

  Result<Marks> marks(const SchemaRef& list) {
    if (!list.at->is_array()) {
      return fail(ErrorKind::kInvalid, "{}: must be a list of marks", list.where);
    }
    Marks out;
    for (std::size_t i = 0; i < list.at->size(); ++i) {
      const SchemaRef at = list.child(i);
      const Json* literal = at.find("literal");
      if (literal == nullptr || at.at->size() != 1) {
        return fail(ErrorKind::kInvalid, "{}: a mark must be an object with \"literal\" alone",
                    at.where);
      }
      const auto mark = text(at.child("literal"));
      if (!mark) return fail(mark.error());
      if (mark->empty()) return fail(ErrorKind::kInvalid, "{}: an empty mark", at.where);
      if (overlaps_itself(*mark)) {
        return fail(ErrorKind::kUnsupported,
                    "{}: the mark \"{}\" ends as it begins, so that where it stands is not clear",
                    at.where, *mark);
      }
      out.emplace_back(*mark);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // The UTF-8 texts that hold none of the marks.
  Result<const Automaton*> texts_without(const Marks& marks) {
    auto& known = free_[marks];
    if (!known) {
      Nfa nfa(kMaxNfaStates, work_.stop());
      const State start = nfa.add_state();
      const auto any = parse_regex("[\\s\\S]*");
      const auto anything = [&](State from) {
        return add_regex(nfa, from, *any, Spelling::kPlain, Span::kWhole);
      };
      const State end = anything(start);
      std::array<Rule, 1> rules = {{{start, end, "#"}}};
      auto out = determinize(nfa, rules, 0, "#", work_);
      if (out && !marks.empty()) {
        const State marked = nfa.add_state();
        for (const std::string& mark : marks) nfa.nothing(nfa.literal(end, mark), marked);
        rules[0].end = anything(marked);
        const auto with = determinize(nfa, rules, 0, "#", work_);
        if (!with) return fail(with.error());
        out = difference(*out, *with, "#", work_);
      }
      if (!out) return fail(out.error());
      known = *std::move(out);
    }
    return &*known;
  }

  static Result<bool> flag(const SchemaRef& part, std::string_view name) {
    const Json* value = part.find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) {
      return fail(ErrorKind::kInvalid, "{}/{}: must be true or false", part.where, name);
    }
    return value->get<bool>();
  }

  // Of the document that is the part's `member`. It is of one part, so that its options are that
  // part's.
  Result<SchemaCompiler*> compiler_of(const SchemaRef& part, std::string_view member,
                                      ValueSpelling spelling, const std::string& quote = {}) {
    const SchemaRef document = part.child(member);
    auto& known = schemas_[document.at];
    if (known) return known.get();
    const auto lenient = flag(part, "lenient");
    if (!lenient) return fail(lenient.error());
    const Json* name = part.find("name");
    if (name != nullptr && !name->is_string()) {
      return fail(ErrorKind::kInvalid, "{}/name: must be a string", part.where);
    }
    const std::string where = name == nullptr ? document.where : name->get<std::string>();
    SchemaOptions options;
    options.lenient = *lenient;
    known = std::make_unique<SchemaCompiler>(book_, *document.at, where + ": #", options, spelling,
                                             quote);
    return known.get();
  }

  // What the part's "at" leads to.
  static Result<SchemaRef> schema_at(const SchemaRef& part, const SchemaCompiler& schemas) {
    const Json* pointer = part.find("at");
    if (pointer == nullptr) return schemas.reader().root();
    if (!pointer->is_string()) {
      return fail(ErrorKind::kInvalid, "{}/at: must be a JSON pointer", part.where);
    }
    const auto& text = pointer->get_ref<const std::string&>();
    auto at = schemas.reader().follow(text);
    if (!at) {
      return fail(ErrorKind::kInvalid, "{}/at: \"{}\" leads nowhere", part.where, text);
    }
    return *std::move(at);
  }

  SchemaRef root_;
  Work& work_;
  RuleBook book_;
  std::vector<ControlToken> control_tokens_;
  std::map<const Json*, std::unique_ptr<SchemaCompiler>> schemas_;  // by document
  std::map<Marks, std::optional<Automaton>> free_;
  std::map<const Json*, std::optional<Automaton>> raw_;  // by part
  std::set<std::string> left_out_;                       // counts of repeats
  std::map<const Json*, Leaf> leaves_;                   // by part, of its first copy
};

}  // namespace

Result<Structure> compile_structure(const Json& structure, StopFlag stop) {
  return with_counts_that_fit(
      stop, [&](Work& work) { return StructureCompiler(structure, work).compile(); });
}

}  // namespace dovetail::grammar
