// Any bytes as a regular expression, in llama.cpp's notation or, where they are JSON, as a schema:
// an error, or a grammar whose walk never gets stuck. The first byte chooses; the last ones choose
// what to take.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace {

using namespace dovetail::grammar;

std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto out = [] {
    std::vector<std::string> tokens = {"</s>"};
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"{\"", "\":", "\"}", "}}", "],[", "null", "\\u00", "e-1", "\xc3\xa9"}) {
      tokens.emplace_back(piece);
    }
    const std::vector<TokenId> ends = {0};
    return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
  }();
  return out;
}

dovetail::Result<Grammar> grammar_of(unsigned kind, std::string_view input) {
  if (kind == 0) return Grammar::from_regex(input);
  if (kind == 2) return Grammar::from_gbnf(input);
  // As deep as the server lets through.
  const auto callback = [](int depth, nlohmann::ordered_json::parse_event_t, auto&) {
    return depth < 64;
  };
  const auto schema = nlohmann::ordered_json::parse(input, callback, false);
  if (schema.is_discarded()) return Grammar::any_json();
  SchemaOptions options;
  options.lenient = kind == 3;
  return Grammar::from_json_schema(schema, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = grammar_of(data[0] % 4U, input);
  if (!grammar) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  const auto masks = TokenMasks::create(*grammar, vocabulary(), 1U << 20U);
  if (!masks) {
    if (masks.error().message.empty()) std::abort();
    return 0;
  }
  Matcher matcher(*masks);
  std::vector<std::uint64_t> mask(vocabulary()->words());
  for (std::size_t step = 0; step < 64 && !matcher.ended(); ++step) {
    matcher.allowed(mask);
    std::vector<TokenId> tokens;
    for (std::size_t id = 0; id < vocabulary()->size(); ++id) {
      if (((mask[id / 64] >> (id % 64)) & 1U) != 0) tokens.push_back(static_cast<TokenId>(id));
    }
    if (tokens.empty()) std::abort();
    if (!matcher.accept(tokens[(data[size - 1 - step % size] + step) % tokens.size()]))
      std::abort();
  }
  return 0;
}
