// Any JSON as a structure (src/grammar/README.md has its parts), with the control tokens <|a|> and
// <|b|>: an error, or a grammar whose walk never gets stuck. The bytes choose what to take.

#include <nlohmann/json.hpp>

#include "fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dovetail;
  static const auto tokens = fuzz::vocabulary({"<|a|>", "<|b|>"});
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto structure = fuzz::parse(input);
  if (structure.is_discarded()) return 0;
  fuzz::check(grammar::Grammar::from_structure(structure, fuzz::stop_soon()), tokens, input);
  return 0;
}
