#pragma once

#include <nlohmann/json_fwd.hpp>

namespace dovetail {

using Json = nlohmann::ordered_json;  // objects keep the order of their keys

}  // namespace dovetail
