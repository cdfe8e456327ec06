#include "pipeline/run/column_work.h"
#include "pipeline/run/columns/command.h"
#include "pipeline/run/columns/words.h"
#include "pipeline/sample/fields.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kMostReasonBytes = 2000;

// Nothing: it is valid. Errors: that cannot be said.
using Objection = std::optional<std::string>;

Result<Objection> object_to(const JsonSchema& schema, const Json& value, bool parse_json) {
  Json parsed;
  if (parse_json) {
    if (!value.is_string()) return Objection(fmt::format("{} is no text", shown(value)));
    parsed = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
    if (parsed.is_discarded()) return Objection(fmt::format("{} is no JSON", shown(value)));
  }
  const Status fits = schema.check(parse_json ? parsed : value);
  if (fits) return Objection();
  if (fits.error().kind != ErrorKind::kInvalid) return fail(fits.error());
  return Objection(fits.error().message);
}

Result<Objection> object_to(const Regex& regex, const Json& value) {
  if (!value.is_string()) return Objection(fmt::format("{} is no text", shown(value)));
  const auto found = regex.is_in(value.get_ref<const std::string&>());
  if (!found) return fail(found.error());
  if (*found) return Objection();
  return Objection(fmt::format("{} does not match {}", shown(value), regex.text()));
}

// What a program wrote, as text that JSON can hold.
std::string readable(std::string_view output) {
  return text::repair_utf8(stripped(output).substr(0, kMostReasonBytes));
}

Result<Objection> object_to(const CommandCheck& check, const Json& value) {
  const std::string input = value.is_string()
                                ? value.get<std::string>()
                                : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto ended = run_command(check, input);
  if (!ended) return fail(ended.error());
  if (ended->timed_out) {
    return Objection(fmt::format("{} did not end within {} s", check.arguments.front(),
                                 static_cast<double>(check.timeout.count()) / 1000.0));
  }
  if (ended->signal != 0) {
    return Objection(
        fmt::format("{} was ended by signal {}", check.arguments.front(), ended->signal));
  }
  if (ended->exit_code == 0) return Objection();
  const std::string output = readable(ended->output);
  return Objection(output.empty()
                       ? fmt::format("{} ended with {}", check.arguments.front(), ended->exit_code)
                       : output);
}

}  // namespace

Result<Json> evaluate(const ValidationColumn& column, const Json& row) {
  const auto found = row.find(column.column);
  const Json value = found == row.end() ? Json() : *found;
  Result<Objection> objection = Objection();
  if (const auto* schema = std::get_if<JsonSchema>(&column.check)) {
    objection = object_to(*schema, value, column.parse_json);
  } else if (const auto* regex = std::get_if<Regex>(&column.check)) {
    objection = object_to(*regex, value);
  } else {
    objection = object_to(std::get<CommandCheck>(column.check), value);
  }
  if (!objection) return fail(objection.error());
  if (column.require && *objection) {
    return fail(ErrorKind::kInvalid, "{} is not valid: {}", column.column, **objection);
  }
  return Json{{"valid", !objection->has_value()},
              {"reason", *objection ? Json(**objection) : Json(nullptr)}};
}

}  // namespace dovetail::pipeline
