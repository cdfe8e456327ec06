#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "families/open_model.h"

// One GGUF file. Whatever it says: a model whose tensors lie within it, or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dovetail::load;
  const auto model = dovetail::families::read_model(
      std::vector{NamedBytes{"fuzz.gguf", std::as_bytes(std::span(data, size))}});
  if (!model) {
    if (model.error().message.find("fuzz.gguf") == std::string::npos) std::abort();
    return 0;
  }
  for (const auto& [name, tensor] : model->tensors) {
    if (tensor.data.size() != tensor.rows * row_bytes(tensor.type, tensor.columns)) std::abort();
    volatile auto last = tensor.data.back();
    static_cast<void>(last);
  }
  return 0;
}
