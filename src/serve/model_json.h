#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "serve/router.h"

namespace dovetail::serve {

// The served model as /v1/models shows it under one of its names, with the sampling parameters that
// its requests take.
nlohmann::ordered_json model_json(const ServerState& state, std::string_view name);

}  // namespace dovetail::serve
