#pragma once

#include <string_view>

#include "serve/api_error.h"
#include "serve/api_request.h"
#include "serve/http_message.h"

namespace dovetail::serve {

// /v1/responses/ID and /v1/responses/ID/input_items: what the server keeps of a response. One that
// is not kept, or was made with another key, is a 404. Any thread.
Outcome<HttpResponse> get_response(std::string_view target, const RequestContext& context);
Outcome<HttpResponse> delete_response(std::string_view target, const RequestContext& context);
// The messages that it answers as items, in pages ("limit", "order", "after").
Outcome<HttpResponse> list_input_items(std::string_view target, const RequestContext& context);

}  // namespace dovetail::serve
