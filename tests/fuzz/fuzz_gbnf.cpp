// Any bytes as a grammar in llama.cpp's notation: an error, or a grammar whose walk never gets
// stuck. The last bytes choose what to take.

#include <nlohmann/json.hpp>

#include "fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dovetail;
  static const auto tokens = fuzz::vocabulary();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fuzz::check(grammar::Grammar::from_gbnf(input, fuzz::stop_soon()), tokens, input);
  return 0;
}
