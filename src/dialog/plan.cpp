#include "dialog/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

bool has_token(std::string_view text) { return text.find(kTokenOpen) != std::string_view::npos; }

bool holds_token(const CallFormat& format) {
  return std::ranges::any_of(
      std::initializer_list<const std::string*>{
          &format.section_open, &format.section_close, &format.between, &format.open,
          &format.middle, &format.close, &format.key_open, &format.key_close, &format.other_close,
          &format.value_close, &format.quote},
      [](const std::string* text) { return has_token(*text); });
}

CallFormat with_tokens(const DialogFormat& dialog) {
  CallFormat out = dialog.calls();
  for (std::string* text :
       {&out.section_open, &out.section_close, &out.between, &out.open, &out.middle, &out.close,
        &out.key_open, &out.key_close, &out.other_close, &out.value_close, &out.quote}) {
    *text = dialog.marked(*text);
  }
  return out;
}

// Whether a tool's schema is of objects. One that is not strict may allow other values, too, or
// name a type that there is not: arguments are an object then.
bool is_of_objects(const Tool& tool) {
  if (!tool.parameters.is_object()) return false;
  const auto type = tool.parameters.find("type");
  if (type == tool.parameters.end() || *type == "object") return true;
  if (tool.strict) return false;
  return type->is_null() || !are_types(*type) ||
         (type->is_array() && std::ranges::find(*type, Json("object")) != type->end());
}

Status check_tools(const CallFormat& format, const std::vector<Tool>& tools) {
  for (const Tool& tool : tools) {
    if (tool.name.empty() || !std::ranges::all_of(tool.name, [](char c) {
          return is_name_char(c) || c == '.' || c == ':';
        })) {
      return fail(ErrorKind::kInvalid, "tool \"{}\": a name has letters, digits, and _ - . : alone",
                  tool.name);
    }
    if (format.style == ArgumentStyle::kJson && !takes_nothing(tool.parameters) &&
        !is_of_objects(tool)) {
      return fail(ErrorKind::kInvalid,
                  "tool \"{}\": #/type: the parameters must be the schema of an object", tool.name);
    }
  }
  return {};
}

bool may_be_key(ArgumentStyle style, const std::string& name) {
  switch (style) {
    case ArgumentStyle::kPythonic:
      return name.front() != '-' && (name.front() < '0' || name.front() > '9') &&
             std::ranges::all_of(name, [](char c) { return is_name_char(c) && c != '-'; });
    case ArgumentStyle::kBare:
      return std::ranges::all_of(name, [](char c) { return is_name_char(c) || c == '.'; });
    case ArgumentStyle::kTagged:
    case ArgumentStyle::kElements:
      return name.size() <= 256 && name.find_first_of("<>\"\n\t ") == std::string::npos;
    case ArgumentStyle::kJson:
      break;
  }
  return true;
}

// Objects with their members in the order in which templates write them, at every depth.
Json in_order(const Json& schema) {
  Json out = schema;
  if (schema.is_array()) {
    for (Json& item : out) item = in_order(item);
  } else if (schema.is_object()) {
    for (const auto& [name, value] : schema.items()) {
      const bool members = name == "properties" && value.is_object();
      out[name] = in_order(members ? with_sorted_members(value) : value);
    }
  }
  return out;
}

// A key ends where its closing text begins.
Status check_keys(const CallFormat& format, const Tool& tool,
                  const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    const std::string& name = parameter.name;
    if (name.empty() || !may_be_key(format.style, name)) {
      return fail(ErrorKind::kUnsupported,
                  "tool \"{}\": #{}: a name that this model's calls cannot hold", tool.name,
                  parameter.at);
    }
  }
  return {};
}

std::vector<std::string> marks_of(const CallFormat& format, const std::vector<Tool>& tools) {
  if (format.channels || tools.empty()) return {};
  const std::string mark = call_mark(format);
  if (!mark.empty()) return {mark};
  std::vector<std::string> out;
  for (const Tool& tool : tools) {
    out.push_back(format.section_open + format.open + tool.name + format.middle);
  }
  return out;
}

}  // namespace

Result<AnswerPlan> AnswerPlan::create(const DialogFormat& dialog, AnswerRequest request) {
  auto data = std::make_shared<Data>();
  data->format = with_tokens(dialog);
  const ReasoningFormat* reasoning = dialog.reasoning();
  if (reasoning != nullptr) {
    data->reasoning = {dialog.marked(reasoning->open), dialog.marked(reasoning->close)};
  }
  if (const ContentFormat* around = dialog.content(); around != nullptr) {
    data->content = {dialog.marked(around->open), dialog.marked(around->close),
                     dialog.marked(around->end)};
  }
  data->request = std::move(request);
  if (data->format.style == ArgumentStyle::kBare) {
    for (Tool& tool : data->request.tools) tool.parameters = in_order(tool.parameters);
  }
  for (Tool& tool : data->request.tools) {
    if (!tool.strict) lower_types(tool.parameters);
  }
  const std::vector<Tool>& tools = data->request.tools;
  if (const Status good = check_tools(data->format, tools); !good) return fail(good.error());
  if (data->request.choice == ToolChoice::kRequired && tools.empty()) {
    return fail(ErrorKind::kInvalid, "a call is required, and there is no tool");
  }
  for (const Tool& tool : tools) {
    data->parameters.emplace_back();
    if (data->format.style == ArgumentStyle::kJson) continue;
    auto parameters = list_parameters(tool);
    if (!parameters) return fail(parameters.error());
    if (const Status good = check_keys(data->format, tool, *parameters); !good) {
      return fail(good.error());
    }
    data->parameters.back() = *std::move(parameters);
  }
  data->call_marks = marks_of(data->format, tools);
  const auto& marks = data->call_marks;
  if (data->request.content && data->request.choice == ToolChoice::kAuto && !marks.empty() &&
      (call_mark(data->format).empty() || marks.front().starts_with('{'))) {
    return fail(ErrorKind::kUnsupported,
                "this model's calls look like JSON content: with a response format, tool_choice "
                "must be \"none\" or \"required\"");
  }
  data->marks = (!tools.empty() && holds_token(data->format)) || data->format.channels ||
                has_token(data->reasoning.open) || has_token(data->reasoning.close) ||
                has_token(data->content.open) || has_token(data->content.close);
  auto structure = write_structure(*data);
  if (!structure) return fail(structure.error());
  data->structure = *std::move(structure);
  AnswerPlan out;
  out.data_ = std::move(data);
  return out;
}

const std::string& AnswerPlan::structure() const { return data_->structure; }
bool AnswerPlan::marks() const { return data_->marks; }

}  // namespace dovetail::dialog
