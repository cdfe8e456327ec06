#include "load/model_source.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace dovetail::load {
namespace {

bool is_gguf(const ModelSource& source) { return source.format.starts_with("GGUF"); }

}  // namespace

GenerationDefaults conversation_defaults(const ModelSource& source) {
  GenerationDefaults defaults = source.generation;
  if (!is_gguf(source) || defaults.sampling.any()) return defaults;
  for (const SamplingRow& row : kSamplingRows) defaults.sampling[row] = row.conversation;
  return defaults;
}

std::string explain_conversation_defaults(const ModelSource& source, const SamplingValues& given) {
  SamplingValues values = given.or_else(conversation_defaults(source).sampling);
  std::optional<double>& temperature = values[sampling_row("temperature")];
  if (!temperature) temperature = sampling_row("temperature").neutral();
  std::vector<std::string> said;
  for (const SamplingRow& row : kSamplingRows) {
    if (!values[row]) continue;
    said.push_back(fmt::format("{} {}", option_name(row), sampling_text(row, *values[row])));
  }
  const char* origin =
      is_gguf(source) ? "the GGUF file recommends none" : "the model's folder recommends none";
  if (source.generation.sampling.any()) origin = "recommended by the model's makers";
  return fmt::format("sampling: {}, unless asked otherwise ({}{})", fmt::join(said, ", "),
                     given.any() ? "by options; " : "", origin);
}

}  // namespace dovetail::load
