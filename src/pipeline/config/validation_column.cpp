#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {
namespace {

// The variables that hold endpoints' keys.
std::vector<std::string> key_variables(const ModelsSection& models) {
  std::vector<std::string> names;
  for (const ModelSpec& model : models.models) {
    const auto* remote = std::get_if<RemoteModel>(&model.where);
    if (remote != nullptr && !remote->api_key_env.empty()) names.push_back(remote->api_key_env);
  }
  return names;
}

std::optional<CommandCheck> read_command(const ColumnContext& context, Fields& fields) {
  CommandCheck check;
  check.folder = context.folder;
  check.withheld = key_variables(context.models);
  check.timeout = std::chrono::milliseconds(
      static_cast<std::int64_t>(1000.0 * fields.number("timeout", {0.001, 3600.0}).value_or(10.0)));
  const bool shell = fields.flag("shell").value_or(false);
  const Json* command = fields.find("command");
  if (command == nullptr) {
    for (const char* key : {"timeout", "shell"}) {
      if (fields.has(key)) fields.wrong(key, "goes with a command");
    }
    return std::nullopt;
  }
  if (shell) {
    if (!command->is_string() || command->get<std::string>().empty()) {
      fields.wrong("command", "{} is no text for the shell", shown(*command));
      return std::nullopt;
    }
    check.arguments = {"/bin/sh", "-c", command->get<std::string>()};
    return check;
  }
  // A text would have to be cut into words, as a shell does.
  if (!command->is_array() || command->empty()) {
    fields.wrong("command",
                 "{} is no list of a program and its arguments; a text for the shell needs "
                 "shell: true",
                 shown(*command));
    return std::nullopt;
  }
  check.arguments = fields.texts("command").value_or(std::vector<std::string>{});
  for (const std::string& argument : check.arguments) {
    if (argument.find('\0') != std::string::npos) {
      fields.wrong("command", "{} holds a zero byte", shown(Json(argument)));
    }
  }
  if (fields.ok() && check.arguments.front().empty()) {
    fields.wrong("command", "expected the name of a program first");
  }
  return check;
}

}  // namespace

void read_validation_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  const std::string column = fields.required_text("column");
  if (!column.empty()) draft.reads.push_back({column, fields.at("column")});
  const bool parse_json = fields.flag("parse_json").value_or(false);
  const bool require = fields.flag("require").value_or(false);
  auto schema = read_schema(context, fields, draft);
  const auto pattern = fields.text("regex");
  auto command = read_command(context, fields);
  const int checks = static_cast<int>(schema.has_value()) + static_cast<int>(pattern.has_value()) +
                     static_cast<int>(command.has_value());
  if (fields.ok() && checks != 1) {
    fields.wrong("", "expected one of schema, schema_file, regex and command");
  }
  if (parse_json && !fields.has("schema") && !fields.has("schema_file")) {
    fields.wrong("parse_json", "goes with a schema");
  }
  if (!fields.ok()) return;
  if (schema) {
    draft.spec.what = ValidationColumn{column, parse_json, *std::move(schema), require};
  } else if (command) {
    draft.spec.what = ValidationColumn{column, parse_json, *std::move(command), require};
  } else {
    auto regex = Regex::compile(*pattern);
    if (!regex) return fields.wrong("regex", "{}", regex.error().message);
    draft.spec.what = ValidationColumn{column, parse_json, *std::move(regex), require};
  }
}

}  // namespace dovetail::pipeline
