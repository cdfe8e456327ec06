#include <charconv>
#include <cmath>

#include "pipeline/run/column_work.h"
#include "pipeline/run/columns/words.h"
#include "pipeline/sample/fields.h"

namespace dovetail::pipeline {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Json> typed(std::string_view text, ValueType type) {
  const std::string_view word = stripped(text);
  switch (type) {
    case ValueType::kText:
      return Json(std::string(text));
    case ValueType::kInteger:
      if (const auto value = number_in<std::int64_t>(word)) return Json(*value);
      return fail(ErrorKind::kInvalid, "{} is no whole number", shown(Json(std::string(text))));
    case ValueType::kReal:
      if (const auto value = number_in<double>(word); value && std::isfinite(*value))
        return Json(*value);
      return fail(ErrorKind::kInvalid, "{} is no number", shown(Json(std::string(text))));
    case ValueType::kFlag:
      if (const auto value = flag_of(word)) return Json(*value);
      return fail(ErrorKind::kInvalid, "{} is neither true nor false",
                  shown(Json(std::string(text))));
    case ValueType::kJson:
      break;
  }
  Json value = Json::parse(word, nullptr, false);
  if (value.is_discarded())
    return fail(ErrorKind::kInvalid, "{} is no JSON", shown(Json(std::string(text))));
  return value;
}

Result<bool> says_true(const text::ChatTemplate& condition, const Json& row) {
  const auto text = condition.render(row);
  if (!text) return fail(text.error());
  return flag_of(stripped(*text)).value_or(false);
}

}  // namespace

Result<bool> is_skipped(const ColumnDescription& column, const Json& row) {
  return column.skip_if ? says_true(*column.skip_if, row) : false;
}

Result<bool> is_accepted(const TargetSpec& target, const Json& row) {
  return says_true(target.when, row);
}

std::string refusal(const TargetSpec& target, const Json& row) {
  const auto accepted = is_accepted(target, row);
  if (!accepted) return fmt::format("target_accepted: {}", accepted.error().message);
  return *accepted ? "" : "target_accepted: it does not meet the condition";
}

std::optional<bool> counts_for(const FigureSpec& figure, const Json& row) {
  const auto says = [&](const text::ChatTemplate& condition) -> std::optional<bool> {
    const auto text = condition.render(row);
    return text ? flag_of(stripped(*text)) : std::nullopt;
  };
  if (figure.among && says(*figure.among) != true) return std::nullopt;
  return says(figure.share_of);
}

Result<Json> evaluate(const ExpressionColumn& column, const Json& row) {
  const auto text = column.value.render(row);
  if (!text) return fail(text.error());
  return typed(*text, column.as);
}

Result<Json> evaluate(const ColumnDescription& column, const Json& row, RecordId record,
                      std::uint64_t seed) {
  if (const auto* own = std::get_if<OwnColumn>(&column.what)) {
    return evaluate(*own, row, record, seed);
  }
  if (const auto* validation = std::get_if<ValidationColumn>(&column.what)) {
    return evaluate(*validation, row);
  }
  return evaluate(std::get<ExpressionColumn>(column.what), row);
}

}  // namespace dovetail::pipeline
