#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::serve {

// Parts of a request's target, "/v1/models/a%2Fb?x=y".

// Without the query.
std::string_view path_of(std::string_view target);
// "/v1/models/" is "/models".
std::string_view bare_path(std::string_view target);
// "%2F" and the like become what they stand for; what is malformed stays.
std::string percent_decoded(std::string_view text);
// The value of a query's parameter, decoded; nothing: it is not there.
std::optional<std::string> query_value(std::string_view target, std::string_view name);

}  // namespace dovetail::serve
