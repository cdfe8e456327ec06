#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dovetail::load {

// Text from a file, made fit for a one-line message: in single quotes, bytes that are not printable
// ASCII as \xNN, cut after 80 characters.
std::string quote(std::string_view text);

// "[64, 172]".
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace dovetail::load
