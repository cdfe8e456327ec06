#include "families/qwen.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "families/windows.h"
#include "load/json_fields.h"
#include "load/limits.h"

namespace dovetail::families {

void read_qwen_sections(Fields& fields) { fields.ask({"rope.dimension_sections", ""}); }

std::vector<std::uint32_t> read_qwen_windows(Fields& fields, std::uint32_t layers,
                                             std::uint32_t usually_full) {
  const bool on = fields.gguf() || uses_sliding_window(fields, kQwenWindow);
  constexpr Key kFull = {"", "max_window_layers"};
  const std::uint32_t full =
      fields.count(kFull, 0, load::kLargestContext).value_or(fields.gguf() ? 0 : usually_full);
  return read_windows(fields, layers, on, full, kQwenWindow);
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
