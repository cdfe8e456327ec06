#include "load/model_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "load/gguf_model.h"
#include "load/hf_model.h"
#include "load/mapped_file.h"
#include "load/stored_parts.h"

namespace dovetail::load {
namespace {

bool is_gguf(const ModelSource& source) { return source.format.starts_with("GGUF"); }

Result<std::shared_ptr<const ModelSource>> open_by_kind(const std::filesystem::path& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    return fail(ErrorKind::kNotFound,
                "{}: no such file or folder; valid: a .gguf file or a Hugging Face folder",
                path.string());
  }
  if (kind == std::filesystem::file_type::directory) return open_hf_model(path);
  const std::string name = path.filename().string();
  if (name.ends_with(".safetensors") || name.ends_with(".json")) {
    return fail(ErrorKind::kInvalid,
                "{}: one file of a Hugging Face model; valid: the folder that holds it",
                path.string());
  }
  return open_gguf_model(path);
}

}  // namespace

Result<std::shared_ptr<const ModelSource>> open_model(const std::filesystem::path& path) {
  // What is thrown here comes from the standard library: memory, or a path that cannot be had.
  try {
    return open_by_kind(path);
  } catch (const std::exception& problem) {
    return fail(ErrorKind::kInternal, "{}: {}", path.string(), problem.what());
  }
}

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
