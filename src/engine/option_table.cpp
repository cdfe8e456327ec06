#include "engine/option_table.h"

#include <fmt/core.h>

#include <type_traits>

namespace dovetail::engine {
namespace {

// Calls `use` with the member, which is no text.
template <class Use>
auto with_number(const OptionRow& row, const Use& use) {
  return std::visit(
      [&](const auto member) {
        using Value = std::remove_reference_t<decltype(EngineOptions().*member)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return decltype(use(&EngineOptions::threads))();
        } else {
          return use(member);
        }
      },
      row.member);
}

}  // namespace

std::string option_name(const OptionRow& row) {
  std::string name(row.option.empty() ? row.name : row.option);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Error by_option_name(Error error) {
  const std::string_view member =
      std::string_view(error.message).substr(0, error.message.find(':'));
  for (const OptionRow& row : kOptionRows) {
    if (row.name != member) continue;
    error.message.replace(0, member.size(), option_name(row));
    break;
  }
  return error;
}

bool is_on(const OptionRow& row) {
  return row.kind() == OptionKind::kFlag && option_value({}, row) > 0.0;
}

std::string option_help(const OptionRow& row, const EngineOptions& options) {
  if (!row.fallback.empty()) return fmt::format("{} ({})", row.help, row.fallback);
  if (row.kind() != OptionKind::kWhole) return std::string(row.help);
  return fmt::format("{} ({})", row.help, option_value(options, row));
}

std::string names_text(const OptionRow& row) {
  std::string text;
  for (const std::string_view& name : row.names) {
    if (!text.empty()) text += &name == &row.names.back() ? " or " : ", ";
    text += name;
  }
  return text;
}

double option_value(const EngineOptions& options, const OptionRow& row) {
  return with_number(row, [&](const auto member) {
    if constexpr (std::is_same_v<decltype(options.*member), const std::chrono::milliseconds&>) {
      return static_cast<double>((options.*member).count());
    } else {
      return static_cast<double>(options.*member);
    }
  });
}

void set_option(EngineOptions& options, const OptionRow& row, double value) {
  with_number(row, [&](const auto member) {
    using Value = std::remove_reference_t<decltype(options.*member)>;
    if constexpr (std::is_same_v<Value, std::chrono::milliseconds>) {
      options.*member = Value(static_cast<std::int64_t>(value));
    } else {
      options.*member = static_cast<Value>(value);
    }
  });
}

void set_option(EngineOptions& options, const OptionRow& row, std::string_view text) {
  if (const auto* member = std::get_if<std::string EngineOptions::*>(&row.member)) {
    options.** member = text;
    return;
  }
  const auto found = std::find(row.names.begin(), row.names.end(), text);
  set_option(options, row, static_cast<double>(found - row.names.begin()));
}

Status check_ranges(const EngineOptions& options) {
  for (const OptionRow& row : kOptionRows) {
    if (std::holds_alternative<std::string EngineOptions::*>(row.member)) continue;
    const double value = option_value(options, row);
    if ((value >= row.least && value <= row.most) || value == option_value({}, row)) continue;
    return fail(ErrorKind::kInvalid, "{}: {} is out of range, expected {} to {}", row.name, value,
                row.least, row.most);
  }
  return {};
}

}  // namespace dovetail::engine
