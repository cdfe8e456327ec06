#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "families/open_model.h"
#include "load/stored_parts.h"

// A config.json up to the first zero byte, a safetensors file after it. Whatever they say: a model
// whose tensors lie within the file, or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dovetail::load;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto zero = std::find(bytes.begin(), bytes.end(), std::byte{0});
  const auto length = static_cast<std::size_t>(zero - bytes.begin());
  HuggingFaceFiles files;
  files.config = {"fuzz/config.json", {reinterpret_cast<const char*>(data), length}};
  files.weights.push_back(
      {"fuzz/model.safetensors", bytes.subspan(std::min(length + 1, bytes.size()))});
  // The configuration alone describes a model, or is an error.
  HuggingFaceFiles alone;
  alone.config = files.config;
  alone.described = true;
  const auto described = dovetail::families::read_model(alone);
  if (!described && described.error().message.find("fuzz/") == std::string::npos) std::abort();
  const auto model = dovetail::families::read_model(files);
  if (!model) {
    if (model.error().message.find("fuzz/") == std::string::npos) std::abort();
    return 0;
  }
  for (const auto& [name, tensor] : model->tensors) {
    if (tensor.parts) {
      std::vector<std::byte> row(row_bytes(tensor.type, tensor.columns));
      write_rows(*tensor.parts, tensor.rows - 1, 1, row.data());
      continue;
    }
    if (tensor.data.size() != tensor.rows * row_bytes(tensor.type, tensor.columns)) std::abort();
    volatile auto last = tensor.data.back();
    static_cast<void>(last);
  }
  return 0;
}
