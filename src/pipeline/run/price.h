#pragma once

#include <cstdint>
#include <variant>

#include "dovetail/request.h"
#include "pipeline/config/model_spec.h"

namespace dovetail::pipeline {

// Of a million tokens.
struct Price {
  double input = 0.0, output = 0.0;
};

inline Price price_of(const ModelSpec& model) {
  const auto* remote = std::get_if<RemoteModel>(&model.where);
  return remote == nullptr ? Price() : Price{remote->input_price, remote->output_price};
}

// What an answer costs, in 1e-9 of the currency.
inline std::uint64_t cost_of(const Price& price, const Usage& usage) {
  return static_cast<std::uint64_t>(
      1000.0 * (price.input * usage.prompt_tokens + price.output * usage.completion_tokens));
}

}  // namespace dovetail::pipeline
