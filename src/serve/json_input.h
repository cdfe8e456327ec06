#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_value.h"
#include "serve/api_error.h"

namespace dovetail::serve {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr int kMaxJsonMembers = 1024;  // of one object: its look-up is linear

// Parses a request's body, which must be one JSON object in valid UTF-8. The keys of every object
// must be distinct, however they are spelled ("a" and "\u0061" are one key). An escaped half of a
// surrogate pair without its other half is U+FFFD, as it is to Python's and Go's servers. Depth and
// member counts are checked before anything is built. Errors are 400 and give the byte at fault
// where there is one.
Outcome<Json> parse_body(std::string_view body);

// A value as an error message shows it: JSON, cut to a line's worth.
std::string shown(const Json& value);

// A number with no more digits than tell it from other floats: 0.8, not 0.800000012.
Json shortest(float number);

// Whether a value is one of these texts.
bool is_one_of(const Json& value, std::span<const std::string_view> texts);

// Readers of single values. `field` is the name in messages.
Outcome<bool> read_bool(std::string_view field, const Json& value);
Outcome<std::int64_t> read_integer(std::string_view field, const Json& value, std::int64_t least,
                                   std::int64_t most);
Outcome<std::string> read_string(std::string_view field, const Json& value);

Outcome<float> read_number(std::string_view field, const Json& value, const NumberRange& range);

// Ids in [0, vocab_size), at most `most` of them.
Outcome<std::vector<std::int32_t>> read_token_ids(std::string_view field, const Json& value,
                                                  std::uint32_t vocab_size, std::size_t most);

}  // namespace dovetail::serve
