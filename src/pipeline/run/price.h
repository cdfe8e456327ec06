#pragma once

#include "dovetail/request.h"
#include "pipeline/config/model_spec.h"

namespace dovetail::pipeline {

// What an answer of a model costs, in 1e-9 of the currency; prices are per million tokens.
inline double cost_of(const ModelSpec& model, const Usage& usage) {
  const auto* remote = std::get_if<RemoteModel>(&model.where);
  if (remote == nullptr) return 0.0;
  return 1000.0 * (remote->input_price * usage.prompt_tokens +
                   remote->output_price * usage.completion_tokens);
}

}  // namespace dovetail::pipeline
