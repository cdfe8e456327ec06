// Any bytes as a regular expression or, where they are JSON, as a schema: an error, or a grammar
// whose walk never gets stuck. The first byte chooses; the last ones choose what to take.

#include <nlohmann/json.hpp>

#include "fuzz/grammar_walk.h"

namespace {

using namespace dovetail;

Result<grammar::Grammar> grammar_of(unsigned kind, std::string_view input) {
  if (kind == 0) return grammar::Grammar::from_regex(input, fuzz::stop_soon());
  const auto schema = fuzz::parse(input);
  if (schema.is_discarded()) return grammar::Grammar::any_json();
  grammar::SchemaOptions options;
  options.lenient = kind == 2;
  return grammar::Grammar::from_json_schema(schema, options, fuzz::stop_soon());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tokens = fuzz::vocabulary();
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fuzz::check(grammar_of(data[0] % 3U, input.substr(1)), tokens, input);
  return 0;
}
