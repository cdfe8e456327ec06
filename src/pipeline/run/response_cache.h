#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pipeline/config/model_spec.h"
#include "pipeline/run/model_client.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// Of all that an answer depends on: the model and where it is, how it samples, what it is asked and
// with which seed.
Hash128 response_key(const ModelSpec& model, const ModelRequest& request);

// An answer as the cache keeps it, and back; nothing where the text is none.
std::string response_text(const ModelAnswer& answer);
std::optional<ModelAnswer> read_response(std::string_view text);

}  // namespace dovetail::pipeline
