#include "load/model_source.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "load/gguf_model.h"
#include "load/hf_model.h"
#include "load/mapped_file.h"

namespace dovetail::load {
namespace {

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

void prefetch_weights(const ModelSource& source) {
  for (const auto& [name, tensor] : source.tensors) prefetch(tensor.data);
}

}  // namespace dovetail::load
