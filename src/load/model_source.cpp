#include "load/model_source.h"

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "load/mapped_file.h"
#include "load/stored_parts.h"

namespace dovetail::load {
namespace {

bool is_gguf(const ModelSource& source) { return source.format.starts_with("GGUF"); }

}  // namespace

GenerationDefaults conversation_defaults(const ModelSource& source) {
  GenerationDefaults defaults = source.generation;
  if (!is_gguf(source) || defaults.recommend_sampling()) return defaults;
  defaults.temperature = 0.8F;
  defaults.top_k = 40;
  defaults.top_p = 0.95F;
  defaults.min_p = 0.05F;
  return defaults;
}

std::string explain_conversation_defaults(const ModelSource& source) {
  const GenerationDefaults defaults = conversation_defaults(source);
  std::string line = fmt::format("sampling: temperature {}", defaults.temperature.value_or(1.0F));
  const auto add = [&line](std::string_view name, const auto& value) {
    if (value) line += fmt::format(", {} {}", name, *value);
  };
  add("top-k", defaults.top_k);
  add("top-p", defaults.top_p);
  add("min-p", defaults.min_p);
  add("repetition penalty", defaults.repetition_penalty);
  const char* origin =
      is_gguf(source) ? "the GGUF file recommends none" : "the model's folder recommends none";
  if (source.generation.recommend_sampling()) origin = "recommended by the model's makers";
  return fmt::format("{}, unless asked otherwise ({})", line, origin);
}

void prefetch_weights(const ModelSource& source) {
  for (const auto& [name, tensor] : source.tensors) {
    prefetch(tensor.data);
    if (tensor.parts) for_each_span(*tensor.parts, prefetch);
  }
}

}  // namespace dovetail::load
