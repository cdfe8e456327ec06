#include "families/qwen.h"

#include <fmt/core.h>

#include "families/windows.h"
#include "load/json_fields.h"
#include "load/limits.h"

namespace dovetail::families {

std::uint32_t read_qwen_window(Fields& fields, std::uint32_t layers) {
  bool slides = uses_sliding_window(fields);
  if (!slides || fields.member("layer_types") != nullptr) {
    return read_uniform_window(fields, layers, slides);
  }
  // Layers before max_window_layers see everything.
  constexpr Key kFull = {"", "max_window_layers"};
  const std::uint32_t full = fields.count(kFull, 0, load::kLargestContext).value_or(28);
  if (full >= layers) {
    slides = false;
  } else if (full != 0) {
    fields.reject(kFull, fmt::format("{}", full),
                  fmt::format("0 or at least the {} layers, so that all layers are alike", layers));
  }
  return read_uniform_window(fields, layers, slides);
}

void refuse_dense_layers(Fields& fields) {
  constexpr Key kStep = {"", "decoder_sparse_step"};
  const auto step = fields.count(kStep, 0, load::kLargestContext);
  if (step && *step != 1) {
    fields.reject(kStep, fmt::format("{}", *step), "1, so that every layer has experts");
  }
  const nlohmann::json* dense = fields.member("mlp_only_layers");
  if (dense != nullptr && !(dense->is_array() && dense->empty())) {
    fields.reject({"", "mlp_only_layers"}, load::text_of(*dense),
                  "[], so that every layer has experts");
  }
}

}  // namespace dovetail::families
