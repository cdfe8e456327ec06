// libFuzzer target: a schema and a value, a zero byte between them. Compiling and checking end in
// an answer or an error, however deep or wild both are.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "pipeline/schema/json_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dovetail::pipeline::JsonSchema;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t middle = input.find('\0');
  if (middle == input.npos || size > (1U << 16U)) return 0;
  const auto schema = nlohmann::ordered_json::parse(input.substr(0, middle), nullptr, false);
  const auto value = nlohmann::ordered_json::parse(input.substr(middle + 1), nullptr, false);
  if (schema.is_discarded() || value.is_discarded()) return 0;
  const auto compiled = JsonSchema::compile(schema, "/s");
  if (!compiled) {
    std::istringstream mistakes(compiled.error().message);
    for (std::string mistake; std::getline(mistakes, mistake);) {
      if (!mistake.starts_with("/s")) std::abort();
    }
    return 0;
  }
  const auto status = compiled->check(value);
  if (!status && status.error().message.empty()) std::abort();
  // A schema says the same of a value each time.
  if (compiled->check(value).has_value() != status.has_value()) std::abort();
  return 0;
}
