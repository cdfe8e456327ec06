#include "pipeline/config/own_column.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr std::array<std::string_view, 7> kCommonKeys = {
    "name", "type", "skip_if", "propagate_skip", "drop", "priority", "on_failure"};

bool is_word(std::string_view name) {
  return !name.empty() && name.size() <= 128 &&
         std::all_of(name.begin(), name.end(), [](unsigned char letter) {
           return std::isalnum(letter) != 0 || letter == '_' || letter == '-';
         });
}

Status check_fields(const ColumnType& type) {
  for (std::size_t i = 0; i < type.fields.size(); ++i) {
    const std::string& name = type.fields[i].name;
    const auto wrong = [&](std::string_view why) {
      return fail(ErrorKind::kInvalid, "column type '{}', field {}: {}", type.name,
                  shown(Json(name)), why);
    };
    if (!is_word(name)) return wrong("expected letters, digits, - and _");
    if (std::find(kCommonKeys.begin(), kCommonKeys.end(), name) != kCommonKeys.end()) {
      return wrong("all columns have a key of this name");
    }
    const auto before = type.fields.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(type.fields.begin(), before,
                    [&](const ColumnField& other) { return other.name == name; })) {
      return wrong("it is there twice");
    }
  }
  return {};
}

std::string_view expected(ColumnFieldKind kind) {
  switch (kind) {
    case ColumnFieldKind::kColumn:
      return "the name of a column";
    case ColumnFieldKind::kColumns:
      return "a list of columns";
    case ColumnFieldKind::kTemplate:
      return "a template";
    case ColumnFieldKind::kValue:
      break;
  }
  return "a value";
}

void read_names(Fields& fields, const std::string& key, std::vector<ColumnRead>& reads) {
  const Json* list = fields.array(key);
  if (list == nullptr) return;
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_string()) {
      return fields.wrong(key, "{} is no name of a column", shown((*list)[i]));
    }
    reads.push_back({(*list)[i].get<std::string>(), pointer_to(fields.at(key), i)});
  }
}

// Reads a field and adds it to what open() is given.
void read_field(Fields& fields, const ColumnField& field, Json& given, OwnColumn& own,
                std::vector<ColumnRead>& reads) {
  switch (field.kind) {
    case ColumnFieldKind::kValue:
      break;
    case ColumnFieldKind::kColumn:
      if (auto name = fields.text(field.name)) {
        reads.push_back({*std::move(name), fields.at(field.name)});
      }
      break;
    case ColumnFieldKind::kColumns:
      read_names(fields, field.name, reads);
      break;
    case ColumnFieldKind::kTemplate:
      if (auto text = read_template(fields, field.name, reads)) {
        own.texts.push_back({field.name, *std::move(text)});
      }
      break;
  }
  const Json* value = fields.find(field.name);
  if (value != nullptr) given[field.name] = *value;
  if (value == nullptr && field.required && fields.ok()) {
    fields.wrong(field.name, "expected {} here", expected(field.kind));
  }
}

Error placed(const ColumnContext& context, const Fields& fields, const Error& error) {
  const std::string& message = error.message;
  const std::string pointer = fields.pointer() + (message.starts_with('/') ? "" : ": ") + message;
  return {ErrorKind::kInvalid, context.document.placed(pointer)};
}

}  // namespace

Status check_column_types(std::span<const ColumnType> types,
                          const std::vector<std::string>& built_in) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ColumnType& type = types[i];
    if (!is_word(type.name)) {
      return fail(ErrorKind::kInvalid, "{} is no name of a column type: letters, digits, - and _",
                  shown(Json(type.name)));
    }
    if (std::find(built_in.begin(), built_in.end(), type.name) != built_in.end()) {
      return fail(ErrorKind::kInvalid,
                  "column type '{}': this type is built in; own types need names other than {}",
                  type.name, fmt::join(built_in, ", "));
    }
    const auto before = types.first(i);
    if (std::any_of(before.begin(), before.end(),
                    [&](const ColumnType& other) { return other.name == type.name; })) {
      return fail(ErrorKind::kInvalid, "column type '{}': it is there twice", type.name);
    }
    if (!type.open) return fail(ErrorKind::kInvalid, "column type '{}': open is empty", type.name);
    if (Status ok = check_fields(type); !ok) return ok;
  }
  return {};
}

void read_own_column(const ColumnContext& context, const ColumnType& type, Fields& fields,
                     ColumnDraft& draft) {
  OwnColumn own;
  own.type = type.name;
  std::vector<ColumnRead> reads;
  Json given = Json::object();
  for (const ColumnField& field : type.fields) read_field(fields, field, given, own, reads);
  // open() sees no column that the file has wrong.
  if (const Status ok = fields.finish(); !ok) return;
  auto opened = guarded("open()", [&] { return type.open(given); });
  if (!opened) return fields.wrong(placed(context, fields, opened.error()));
  if (!opened->make)
    return fields.wrong("type", "open() of the type '{}' gave nothing to make values with",
                        type.name);
  own.make = std::move(opened->make);
  own.blocks = opened->blocks;
  for (ColumnNeed& need : opened->needs) {
    reads.push_back(
        {std::move(need.column), need.field.empty() ? fields.pointer() : fields.at(need.field)});
  }
  for (const ColumnRead& read : reads) own.needs.push_back(read.name);
  std::sort(own.needs.begin(), own.needs.end());
  own.needs.erase(std::unique(own.needs.begin(), own.needs.end()), own.needs.end());
  draft.reads.insert(draft.reads.end(), std::make_move_iterator(reads.begin()),
                     std::make_move_iterator(reads.end()));
  draft.spec.recipe += fmt::format("\n{}", type.version);
  draft.spec.what = std::move(own);
}

}  // namespace dovetail::pipeline
