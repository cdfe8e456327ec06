#include "load/container.h"

#include <system_error>

#include "load/gguf_container.h"
#include "load/hf_container.h"

namespace dovetail::load {

Result<MappedFiles> map_model(const std::filesystem::path& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    return fail(ErrorKind::kNotFound,
                "{}: no such file or folder; valid: a .gguf file or a Hugging Face folder",
                path.string());
  }
  if (kind == std::filesystem::file_type::directory) return map_hf_files(path);
  const std::string name = path.filename().string();
  if (name.ends_with(".safetensors") || name.ends_with(".json")) {
    return fail(ErrorKind::kInvalid,
                "{}: one file of a Hugging Face model; valid: the folder that holds it",
                path.string());
  }
  return map_gguf_files(path);
}

bool is_description(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    return path.extension() == ".json" && std::filesystem::is_regular_file(path, error);
  return is_hf_description(path);
}

Result<MappedFiles> map_description(const std::filesystem::path& path) {
  return map_hf_description(path);
}

Result<Container> read_container(const ModelFiles& files) {
  if (const auto* shards = std::get_if<std::vector<NamedBytes>>(&files)) {
    return read_gguf_container(*shards);
  }
  return read_hf_container(std::get<HuggingFaceFiles>(files));
}

Status read_extras(const ModelFiles& files, const Container& container, ModelSource& source) {
  if (const auto* folder = std::get_if<HuggingFaceFiles>(&files)) {
    return read_hf_extras(*folder, container, source);
  }
  return read_gguf_extras(container, source);
}

}  // namespace dovetail::load
