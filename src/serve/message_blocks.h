#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/json_input.h"
#include "serve/unknown_fields.h"

namespace dovetail::serve {

// Blocks of /v1/messages, of which contents are made. Errors are 400 and name the field.

// A block's "type".
Outcome<std::string> block_type(const std::string& field, const Json& block);

// A string that the block must have.
Outcome<std::string> member_of(const std::string& field, const Json& block, const char* member);

// What a block says to the model, if it is of a type that is text: documents and results of a
// search stand between tags of their type, with their titles. Citations, which answers do not have,
// are an unknown field where they are asked for.
std::optional<Outcome<std::string>> block_text(const std::string& field, std::string_view type,
                                               const Json& block, UnknownFields& unknown);

// The types of these blocks, for messages: "\"text\", \"document\"" and so on.
std::string text_blocks();

// A content of nothing else: a string, or such blocks.
Outcome<std::string> content_text(const std::string& field, const Json& value,
                                  UnknownFields& unknown);

}  // namespace dovetail::serve
