#include "grammar/compiler.h"

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace dovetail::grammar {
namespace {

using Masks = std::shared_ptr<const TokenMasks>;
constexpr std::size_t kMostKept = 1024;
// How often a thread that waits for another's grammar looks at its own stop flag.
constexpr std::chrono::milliseconds kLook{20};

// How deep brackets nest; knows only them and strings, the rest is the parser's.
bool nests_deeper(std::string_view text, std::uint32_t limit) {
  std::uint32_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

Result<Json> parse(std::string_view text, std::string_view noun, StopFlag stop) {
  if (nests_deeper(text, Compiler::kMaxSourceDepth)) {
    return fail(ErrorKind::kUnsupported, "#: the {} nests deeper than {} levels", noun,
                Compiler::kMaxSourceDepth);
  }
  try {
    // Members are added in a time that grows with their number, so that parsing looks at it too.
    Json json =
        Json::parse(text, [stop](int, Json::parse_event_t, Json&) { return !is_set(stop); });
    if (is_set(stop)) return fail(ErrorKind::kUnavailable, "#: the compilation was stopped");
    return json;
  } catch (const Json::parse_error& error) {
    return fail(ErrorKind::kInvalid, "#: the {} is not valid JSON in UTF-8: error at byte {}", noun,
                error.byte);
  } catch (const Json::exception&) {  // a number that no double can hold
    return fail(ErrorKind::kInvalid, "#: the {} is not valid JSON: a number is out of range", noun);
  }
}

constexpr std::size_t max_bytes(SourceKind kind) {
  return kind == SourceKind::kStructure ? Compiler::kMaxStructure : Compiler::kMaxSource;
}

Result<Grammar> grammar_of(SourceKind kind, std::string_view text, StopFlag stop) {
  if (text.size() > max_bytes(kind)) {
    return fail(ErrorKind::kUnsupported, "{}: {} bytes; at most {}",
                kind == SourceKind::kRegex  ? "regex"
                : kind == SourceKind::kGbnf ? "grammar"
                                            : "#",
                text.size(), max_bytes(kind));
  }
  switch (kind) {
    case SourceKind::kJsonSchema: {
      const auto schema = parse(text, "schema", stop);
      if (!schema) return fail(schema.error());
      return Grammar::from_json_schema(*schema, {}, stop);
    }
    case SourceKind::kStructure: {
      const auto structure = parse(text, "structure", stop);
      if (!structure) return fail(structure.error());
      return Grammar::from_structure(*structure, stop);
    }
    case SourceKind::kRegex:
      return Grammar::from_regex(text, stop);
    case SourceKind::kGbnf:
      return Grammar::from_gbnf(text, stop);
    case SourceKind::kJsonObject:
      return Grammar::any_json();
  }
  return fail(ErrorKind::kInternal, "an unknown kind of grammar");
}

}  // namespace

Result<Masks> Compiler::compile(SourceKind kind, std::string_view text, StopFlag stop) {
  const auto stopped = [] { return fail(ErrorKind::kUnavailable, "the compilation was stopped"); };
  const Key key(kind, text);
  {
    // Marks the key as under way, unless its outcome is there first.
    std::unique_lock lock(mutex_);
    while (true) {
      if (auto known = find(key)) return *std::move(known);
      if (is_set(stop)) return stopped();
      if (under_way_.insert(key).second) break;
      done_.wait_for(lock, kLook);
    }
  }
  Result<Masks> out = [&]() -> Result<Masks> {
    try {
      auto grammar = grammar_of(kind, text, stop);
      if (!grammar) return fail(std::move(grammar.error()));
      auto masks = TokenMasks::create(*std::move(grammar), vocabulary_, kMaskBytes, stop);
      if (masks) (*masks)->prepare(kPrepared, stop);
      return masks;
    } catch (const std::exception& error) {  // memory
      return fail(ErrorKind::kInternal, "the grammar could not be compiled: {}", error.what());
    }
  }();
  if (is_set(stop)) out = stopped();
  {
    const std::lock_guard lock(mutex_);
    // What is too large was not looked at, and is not worth its place; a grammar that was stopped,
    // or met a lack of memory, may be good.
    const bool final = out || (out.error().kind != ErrorKind::kUnavailable &&
                               out.error().kind != ErrorKind::kInternal);
    if (final && text.size() <= max_bytes(kind)) keep(key, out);
    under_way_.erase(key);
  }
  done_.notify_all();
  return out;
}

std::optional<Result<Masks>> Compiler::find(SourceKind kind, std::string_view text) {
  const std::lock_guard lock(mutex_);
  return find(Key(kind, text));
}

std::optional<Result<Masks>> Compiler::find(const Key& key) {
  const auto at = kept_.find(key);
  if (at == kept_.end()) return std::nullopt;
  order_.splice(order_.begin(), order_, at->second.place);
  if (at->second.error) return Result<Masks>(fail(*at->second.error));
  return Result<Masks>(at->second.masks);
}

void Compiler::keep(Key key, const Result<Masks>& outcome) {
  const auto [at, fresh] = kept_.try_emplace(std::move(key));
  if (!fresh) return;
  if (outcome) {
    at->second.masks = *outcome;
  } else {
    at->second.error = outcome.error();
  }
  order_.push_front(&at->first);
  at->second.place = order_.begin();
  // Masks grow while they are used, so what is kept is summed up anew.
  std::size_t bytes = sum();
  while (order_.size() > 1 && (bytes > max_kept_ || order_.size() > kMostKept)) {
    const auto last = kept_.find(*order_.back());
    order_.pop_back();
    kept_.erase(last);
    bytes = sum();
  }
}

std::size_t Compiler::sum() const {
  std::size_t out = 0;
  for (const auto& [key, kept] : kept_) {
    out += sizeof(Key) + sizeof(Kept) + 2 * key.second.size();
    if (kept.masks) out += kept.masks->bytes();
  }
  return out;
}

std::size_t Compiler::kept_grammars() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

std::size_t Compiler::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return sum();
}

}  // namespace dovetail::grammar
