#pragma once

#include <string_view>

namespace dovetail::serve {

// The page at "/": one HTML file made of src/serve/page/ when the program is built.
extern const std::string_view kPage;

// Its Content-Security-Policy: its own script and style by their hashes, requests to this server,
// and nothing else.
extern const std::string_view kPagePolicy;

}  // namespace dovetail::serve
