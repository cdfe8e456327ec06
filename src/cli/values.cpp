#include "cli/values.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>

namespace dovetail::cli {
namespace {

// Reads all of `text`; nothing if it is anything else but a T.
template <class T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
}

Result<std::int64_t> parse_integer(std::string_view text, std::int64_t least, std::int64_t most) {
  const std::optional<std::int64_t> value = whole<std::int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  return fail(ErrorKind::kInvalid, "'{}' is {}, expected {} to {}", text,
              value ? "out of range" : "not an integer", least, most);
}

Result<std::uint64_t> parse_unsigned(std::string_view text) {
  if (const std::optional<std::uint64_t> value = whole<std::uint64_t>(text)) return *value;
  return fail(ErrorKind::kInvalid, "'{}' is no integer from 0 to {}", text,
              std::numeric_limits<std::uint64_t>::max());
}

Result<float> parse_number(std::string_view text, float least, float most, bool above) {
  const std::optional<float> value = whole<float>(text);
  const bool inside = value && std::isfinite(*value) &&
                      (above ? *value > least : *value >= least) && *value <= most;
  if (inside) return *value;
  return fail(ErrorKind::kInvalid, "'{}' is {}, expected {}{} to {}", text,
              value ? "out of range" : "not a number", above ? "above " : "", least, most);
}

Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t most) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::optional<std::uint64_t> count = whole<std::uint64_t>(text.substr(0, digits));
  std::string unit(text.substr(digits));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
  for (std::size_t i = 0; count && i < kUnits.size(); ++i) {
    const std::string prefix(kUnits[i]);
    if (unit != prefix && unit != prefix + "B" && (i == 0 || unit != prefix + "IB")) continue;
    const unsigned shift = 10U * static_cast<unsigned>(i);
    if (*count > most >> shift) break;
    return *count << shift;
  }
  return fail(ErrorKind::kInvalid, "'{}' is no size, expected bytes such as 4G, 512M or 65536",
              text);
}

Result<std::pair<std::int32_t, float>> parse_bias(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return fail(ErrorKind::kInvalid, "'{}' has no '=', expected ID=BIAS such as 42=-1.5", text);
  const Result<std::int64_t> id =
      parse_integer(text.substr(0, equals), 0, std::numeric_limits<std::int32_t>::max());
  if (!id) return fail(id.error());
  const Result<float> bias = parse_number(text.substr(equals + 1), -100.0F, 100.0F);
  if (!bias) return fail(bias.error());
  return std::pair(static_cast<std::int32_t>(*id), *bias);
}

Result<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  if (trimmed(text).empty()) return ids;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const Result<std::int64_t> id =
        parse_integer(trimmed(text.substr(0, comma)), 0, std::numeric_limits<std::int32_t>::max());
    if (!id) return fail(id.error());
    ids.push_back(static_cast<std::int32_t>(*id));
    if (comma == text.size()) return ids;
    text.remove_prefix(comma + 1);
  }
}

std::string show_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

CLI::Option* add_value(CLI::App& app, const std::string& names, const char* type, ReadValue read,
                       const std::string& description, bool repeatable) {
  // The raw results are read: what CLI11 hands to the callback has "{}" rewritten.
  auto self = std::make_shared<CLI::Option*>(nullptr);
  CLI::Option* option = app.add_option(
      names,
      [self, read = std::move(read)](const CLI::results_t&) {
        for (const std::string& text : (*self)->results()) {
          if (const Status ok = read(text); !ok)
            throw CLI::ValidationError((*self)->get_name(), ok.error().message);
        }
        return true;
      },
      description);
  *self = option;
  option->type_name(type)->expected(1)->allow_extra_args(false);
  if (repeatable) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option;
}

CLI::Option* add_text(CLI::App& app, const std::string& names, std::string& target,
                      const std::string& description, const char* type) {
  return add_value(
      app, names, type,
      [&target](const std::string& text) -> Status {
        target = text;
        return {};
      },
      description);
}

CLI::Option* check_switch(CLI::Option* flag) {
  return flag->check(CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr std::string_view kValues[] = {"true", "false", "on", "off", "yes",    "no",
                                                "1",    "0",     "t",  "f",   "enable", "disable",
                                                "y",    "n",     "+",  "-"};
        std::string lower = text;
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        const bool valid =
            std::find(std::begin(kValues), std::end(kValues), lower) != std::end(kValues);
        return valid ? std::string() : fmt::format("'{}', expected true or false", text);
      },
      ""));
}

CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& target,
                        const std::string& description) {
  return check_switch(app.add_flag(names, target, description));
}

}  // namespace dovetail::cli
