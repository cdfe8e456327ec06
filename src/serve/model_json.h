#pragma once

#include <nlohmann/json_fwd.hpp>

#include "serve/router.h"

namespace dovetail::serve {

// The served model as /v1/models shows it, with the sampling parameters that its requests take.
nlohmann::ordered_json model_json(const ServerState& state);

}  // namespace dovetail::serve
