#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dovetail::cli {

// The most that options with 32 bits take, with and without a sign.
inline constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kMostUint32 = std::numeric_limits<std::uint32_t>::max();

// Readers of single values. Errors say what was given and what would be valid.
Result<std::int64_t> parse_integer(std::string_view text, std::int64_t least, std::int64_t most);
Result<std::uint64_t> parse_unsigned(std::string_view text);
// Finite decimal numbers; `least` itself is valid unless `above`.
Result<float> parse_number(std::string_view text, float least, float most, bool above = false);
// Bytes: digits with an optional K, M, G or T (powers of 1024; "KB", "KiB" too), for example 512M.
Result<std::uint64_t> parse_bytes(std::string_view text,
                                  std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
// "ID=BIAS"
Result<std::pair<std::int32_t, float>> parse_bias(std::string_view text);
// "1,2,3", with or without spaces.
Result<std::vector<std::int32_t>> parse_ids(std::string_view text);
// Without blanks and line ends around it.
std::string_view trimmed(std::string_view text);
// "4.0 GiB"
std::string show_bytes(std::uint64_t bytes);

// What an option takes; also the placeholder in the help and the type in a TOML file.
inline constexpr const char* kInteger = "N";
inline constexpr const char* kNumber = "X";
inline constexpr const char* kBytes = "BYTES";
inline constexpr const char* kText = "TEXT";
inline constexpr const char* kFile = "FILE";

using ReadValue = std::function<Status(const std::string&)>;

// Adds an option whose value goes through `read`, once per time it is given; without
// `repeatable`, twice is an error. An error of `read` becomes "--name: message".
CLI::Option* add_value(CLI::App& app, const std::string& names, const char* type, ReadValue read,
                       const std::string& description, bool repeatable = false);

// The common kinds. The target keeps its value when the option is not given.
CLI::Option* add_text(CLI::App& app, const std::string& names, std::string& target,
                      const std::string& description, const char* type = kText);

// A flag, which may also be given as NAME=VALUE with a value such as true or false.
CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& target,
                        const std::string& description);
// Makes a flag refuse other values with an error that names them.
CLI::Option* check_switch(CLI::Option* flag);

template <class T>
CLI::Option* add_integer(CLI::App& app, const std::string& names, T& target, std::int64_t least,
                         std::int64_t most, const std::string& description) {
  return add_value(
      app, names, kInteger,
      [&target, least, most](const std::string& text) -> Status {
        const Result<std::int64_t> value = parse_integer(text, least, most);
        if (!value) return fail(value.error());
        if constexpr (std::is_integral_v<T>) {
          target = static_cast<T>(*value);
        } else {
          target = static_cast<typename T::value_type>(*value);
        }
        return {};
      },
      description);
}

}  // namespace dovetail::cli
