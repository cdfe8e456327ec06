#include "grammar/compiler.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::grammar {
namespace {

using Masks = std::shared_ptr<const TokenMasks>;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostKept = 1024;

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

Result<Grammar> from_schema_text(std::string_view text) {
  if (nests_deeper(text, Compiler::kMaxSourceDepth)) {
    return fail(ErrorKind::kUnsupported, "#: the schema nests deeper than {} levels",
                Compiler::kMaxSourceDepth);
  }
  try {
    return Grammar::from_json_schema(Json::parse(text));
  } catch (const Json::parse_error& error) {
    return fail(ErrorKind::kInvalid, "#: the schema is not valid JSON in UTF-8: error at byte {}",
                error.byte);
  } catch (const Json::exception&) {  // a number that no double can hold
    return fail(ErrorKind::kInvalid, "#: the schema is not valid JSON: a number is out of range");
  }
}

Result<Grammar> grammar_of(SourceKind kind, std::string_view text) {
  if (text.size() > Compiler::kMaxSource) {
    return fail(ErrorKind::kUnsupported, "{}: {} bytes; at most {}",
                kind == SourceKind::kRegex ? "regex" : "#", text.size(), Compiler::kMaxSource);
  }
  switch (kind) {
    case SourceKind::kJsonSchema:
      return from_schema_text(text);
    case SourceKind::kRegex:
      return Grammar::from_regex(text);
    case SourceKind::kJsonObject:
      return Grammar::any_json();
  }
  return fail(ErrorKind::kInternal, "an unknown kind of grammar");
}

}  // namespace

Result<Masks> Compiler::compile(SourceKind kind, std::string_view text) {
  Key key(kind, text);
  if (auto known = find(key)) return *std::move(known);
  const std::lock_guard lock(compiling_);
  if (auto known = find(key)) return *std::move(known);  // while this one waited
  Result<Masks> out = [&]() -> Result<Masks> {
    auto grammar = grammar_of(kind, text);
    if (!grammar) return fail(std::move(grammar.error()));
    auto masks = TokenMasks::create(*std::move(grammar), vocabulary_, kMaskBytes);
    if (masks) (*masks)->prepare(kPrepared);
    return masks;
  }();
  // What is too large was not looked at, and is not worth its place.
  if (text.size() <= kMaxSource) keep(std::move(key), out);
  return out;
}

std::optional<Result<Masks>> Compiler::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto at = kept_.find(key);
  if (at == kept_.end()) return std::nullopt;
  order_.splice(order_.begin(), order_, at->second.place);
  if (at->second.error) return Result<Masks>(fail(*at->second.error));
  return Result<Masks>(at->second.masks);
}

void Compiler::keep(Key key, const Result<Masks>& outcome) {
  const std::lock_guard lock(mutex_);
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
