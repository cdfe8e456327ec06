#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/api_error.h"
#include "serve/http_message.h"

namespace dovetail::serve {

// Reads the head of a request: all bytes that HeadScanner found, with the empty line. Errors: 400
// for what is malformed or could be framed in two ways, for a Host header that is missing from
// HTTP/1.1, there more than once or no host; 501 for transfer codings other than "chunked".
Outcome<HttpHead> parse_head(std::string_view text);

// "Example.org:80" gives "example.org" and "[::1]" itself; nothing for what is no host with an
// optional port.
std::optional<std::string> host_name(std::string_view authority);

}  // namespace dovetail::serve
