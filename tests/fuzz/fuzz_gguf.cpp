#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "load/gguf_model.h"

// One GGUF file. Whatever it says: a model whose tensors lie within it, or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dovetail::load;
  const NamedBytes shard{"fuzz.gguf", std::as_bytes(std::span(data, size))};
  const auto model = read_gguf_model({&shard, 1});
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
