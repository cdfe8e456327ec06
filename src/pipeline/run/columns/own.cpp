#include <cmath>

#include "pipeline/config/own_column.h"
#include "pipeline/run/column_work.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

// Why a value cannot be written and read again; empty: it can.
std::string_view objection(const Json& value) {
  if (value.is_string() && !text::is_valid_utf8(value.get_ref<const std::string&>())) {
    return "a text that is no UTF-8";
  }
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return "a number that is not finite";
  }
  if (value.is_binary()) return "binary data";
  if (value.is_discarded()) return "what could not be parsed";
  if (!value.is_structured()) return "";
  for (const auto& [key, member] : value.items()) {
    if (value.is_object() && !text::is_valid_utf8(key)) return "a key that is no UTF-8";
    const std::string_view inside = objection(member);
    if (!inside.empty()) return inside;
  }
  return "";
}

}  // namespace

Result<Json> evaluate(const OwnColumn& column, const Json& row, RecordId record,
                      std::uint64_t seed) {
  // What else has been made by now depends on the schedule, and is not shown to it.
  Json needed = Json::object(), texts = Json::object();
  for (const std::string& name : column.needs) needed[name] = row.at(name);
  for (const OwnColumn::Text& text : column.texts) {
    auto rendered = text.value.render(needed);
    if (!rendered) return fail(rendered.error());
    texts[text.field] = *std::move(rendered);
  }
  auto value = guarded(column.type, [&] { return column.make({record, seed, needed, texts}); });
  if (!value) return value;
  if (const std::string_view wrong = objection(*value); !wrong.empty()) {
    return fail(ErrorKind::kInvalid, "{} has made {}, which JSON cannot hold", column.type, wrong);
  }
  return value;
}

}  // namespace dovetail::pipeline
