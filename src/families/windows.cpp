#include "families/windows.h"

#include <fmt/core.h>

#include "families/common.h"
#include "load/limits.h"

namespace dovetail::families {
namespace {

constexpr Key kWindow = {"attention.sliding_window", "sliding_window"};
constexpr Key kLayerTypes = {"", "layer_types"};
constexpr std::string_view kSliding = "sliding_attention";
constexpr Key kPattern = {"attention.sliding_window_pattern", "sliding_window_pattern"};

// Where layer_types lists layers that slide, but there is no window that is switched on.
void refuse_sliding(Fields& fields, bool has_window) {
  fields.reject(kWindow, has_window ? "switched off by use_sliding_window" : "missing",
                "a number of positions, since layer_types asks for sliding_attention",
                ErrorKind::kInvalid);
}

}  // namespace

std::optional<std::uint32_t> read_window(Fields& fields, std::uint32_t usual) {
  // Converters write 0 for none, and transformers does where it is switched off.
  const bool off = !fields.flag({"", "use_sliding_window"}).value_or(true);
  auto window = fields.count(kWindow, fields.gguf() || off ? 0 : 1, load::kLargestContext);
  if (!window && !fields.gguf() && !fields.is_null(kWindow)) window = usual;
  return window == 0U ? std::nullopt : window;
}

std::uint32_t read_uniform_window(Fields& fields, std::uint32_t layers, bool slides,
                                  std::uint32_t usual) {
  const auto window = read_window(fields, usual);
  if (fields.gguf()) return window.value_or(0);
  slides = slides && window;
  constexpr std::string_view kValid =
      "one of full_attention and sliding_attention, the same for every layer";
  if (const auto types = read_layer_types(fields, layers, kSliding, kValid)) {
    for (const bool type : *types) {
      if (type != types->front()) {
        fields.reject(kLayerTypes, "full and sliding layers mixed", kValid);
        return 0;
      }
    }
    if (types->front() && !slides) refuse_sliding(fields, window.has_value());
    slides = slides && types->front();
  }
  return slides ? window.value_or(0) : 0;
}

std::vector<std::uint32_t> read_windows(Fields& fields, std::uint32_t layers, bool on,
                                        std::uint32_t first, std::uint32_t usual) {
  const auto window = read_window(fields, usual);
  const bool slides = on && window;
  const bool listed =
      fields.gguf() ? fields.is_array(kPattern) : fields.member("layer_types") != nullptr;
  std::vector<std::uint32_t> out(layers);
  if (!listed) {
    for (std::uint32_t i = first; slides && i < layers; ++i) out[i] = *window;
    return out;
  }
  const std::vector<bool> which = read_sliding_layers(fields, layers, 0);
  for (std::uint32_t i = 0; i < layers; ++i) {
    if (!which[i]) continue;
    if (slides) {
      out[i] = *window;
    } else if (!fields.gguf()) {
      refuse_sliding(fields, window.has_value());
    }
  }
  return out;
}

bool uses_sliding_window(Fields& fields, std::uint32_t usual) {
  return fields.flag({"", "use_sliding_window"}).value_or(false) && read_window(fields, usual);
}

std::vector<bool> read_sliding_layers(Fields& fields, std::uint32_t layers, std::uint32_t period,
                                      FullLayer full) {
  if (const auto types =
          read_layer_types(fields, layers, kSliding, "full_attention, sliding_attention")) {
    return *types;
  }
  if (fields.gguf() && fields.is_array(kPattern)) {
    std::vector<bool> out = fields.flags(kPattern, layers);
    out.resize(layers);
    return out;
  }
  period = fields.count(kPattern, 0, load::kLargestContext).value_or(period);
  std::vector<bool> out(layers);
  const std::uint32_t before = full == FullLayer::kLast ? 1 : 0;
  for (std::uint32_t i = 0; i < layers; ++i) out[i] = period != 0 && (i + before) % period != 0;
  return out;
}

}  // namespace dovetail::families
