#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "dialog/elements.h"
#include "dialog/plan.h"
#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

// Ids as models write them, and numbers of calls.
constexpr std::string_view kAnyId = "[A-Za-z0-9_\\-]{1,40}";
constexpr std::string_view kNineId = "[A-Za-z0-9]{9}";
constexpr std::string_view kIndex = "0|[1-9][0-9]{0,3}";
constexpr std::string_view kNumber = "[1-9][0-9]{0,3}";
// JSON's types but for strings.
constexpr std::string_view kOtherType = "number|boolean|null|object|array";
// What may stand between reasoning and calls or content of a form.
constexpr std::string_view kSpace = "[ \\n]{0,2}";

// A part that holds a schema of `asked`, of which what cannot be kept is an error or left out.
Json held(Json part, const auto& asked) {
  if (!asked.strict) part["lenient"] = true;
  if (!asked.place.empty()) part["name"] = asked.place;
  return part;
}

Json choice_of(Json parts) {
  if (parts.size() == 1) return parts.front();
  return {{"choice", std::move(parts)}};
}

class StructureWriter {
 public:
  explicit StructureWriter(const AnswerPlan::Data& plan)
      : plan_(plan), format_(plan.format), request_(plan.request) {}

  Result<std::string> write() {
    const bool may_call = !request_.tools.empty() && request_.choice != ToolChoice::kNone;
    if (!may_call && !request_.content && request_.tools.empty()) return std::string();
    Json content;
    if (request_.content) {
      auto form = content_form(*request_.content);
      if (!form) return fail(form.error());
      content = *std::move(form);
    }
    Json out = Json::array();
    if (format_.channels) {
      add_channels(out, content, may_call);
    } else {
      add_answer(out, content, may_call);
    }
    return Json{{"sequence", std::move(out)}}.dump();
  }

 private:
  static Result<Json> content_form(const ContentForm& form) {
    switch (form.kind) {
      case ContentForm::Kind::kRegex:
        return Json{{"regex", form.text}};
      case ContentForm::Kind::kJsonObject:
        return Json{{"schema", {{"type", "object"}}}};
      case ContentForm::Kind::kJsonSchema:
        break;
    }
    Json schema = Json::parse(form.text, nullptr, false);
    if (schema.is_discarded()) {
      return fail(ErrorKind::kInvalid, "the schema of the response format is no JSON");
    }
    return held(Json{{"schema", std::move(schema)}}, form);
  }

  void add_answer(Json& out, const Json& content, bool may_call) const {
    add_reasoning(out);
    Json calls = Json::array();
    if (request_.choice == ToolChoice::kRequired) {
      out.push_back({{"regex", kSpace}});
      add_optional(out, plan_.content.open);
      add_optional(out, plan_.content.close);
      add_calls(out);
    } else if (content.is_null()) {
      Json marks = marks_of(plan_.call_marks);
      // Reasoning is recognised where an answer begins with it.
      if (!plan_.reasoning.open.empty()) {
        add_mark(marks, std::string(trim_right(plan_.reasoning.open)));
      }
      add_optional(out, plan_.content.open);
      out.push_back({{"free", std::move(marks)}});
      add_optional(out, plan_.content.close);
      if (may_call) add_calls(calls);
      if (may_call) out.push_back({{"optional", {{"sequence", std::move(calls)}}}});
    } else {
      if (!plan_.reasoning.open.empty()) out.push_back({{"regex", kSpace}});
      add_optional(out, plan_.content.open);
      Json said = Json::array({content});
      add_optional(said, plan_.content.close);
      Json either = Json::array({{{"sequence", std::move(said)}}});
      if (may_call) {
        add_optional(calls, plan_.content.close);
        add_calls(calls);
        either.push_back({{"sequence", std::move(calls)}});
      }
      out.push_back(choice_of(std::move(either)));
    }
    add_optional(out, plan_.content.end);
  }

  void add_optional(Json& parts, const std::string& text) const {
    if (text.empty()) return;
    Json own = Json::array();
    add_text(own, text);
    parts.push_back({{"optional", {{"sequence", std::move(own)}}}});
  }

  void add_reasoning(Json& out) const {
    if (plan_.reasoning.open.empty()) return;
    Json parts = Json::array();
    if (!request_.reasoning_opened) add_text(parts, plan_.reasoning.open);
    parts.push_back({{"free", marks_of({plan_.reasoning.close})}});
    add_text(parts, plan_.reasoning.close);
    if (request_.reasoning_opened) {
      for (Json& part : parts) out.push_back(std::move(part));
    } else {
      out.push_back({{"optional", {{"sequence", std::move(parts)}}}});
    }
  }

  // Control tokens never occur in free text.
  static void add_mark(Json& marks, const std::string& text) {
    if (text.find(kTokenOpen) == std::string::npos) marks.push_back({{"literal", text}});
  }
  static Json marks_of(const std::vector<std::string>& texts) {
    Json out = Json::array();
    for (const std::string& text : texts) add_mark(out, text);
    return out;
  }

  // A text of the format: literals, control tokens, and places of ids.
  void add_text(Json& parts, std::string_view text) const {
    std::string literal;
    const auto flush = [&] {
      if (!literal.empty()) parts.push_back({{"literal", std::exchange(literal, {})}});
    };
    for (std::size_t i = 0; i < text.size();) {
      const std::string_view rest = text.substr(i);
      if (rest.front() == kTokenOpen) {
        flush();
        const std::size_t end = rest.find(kTokenClose);
        parts.push_back({{"token", rest.substr(1, end - 1)}});
        i += end + 1;
      } else if (rest.starts_with(kIdPlace)) {
        flush();
        parts.push_back({{"regex", format_.ids == IdRule::kNine ? kNineId : kAnyId}});
        i += kIdPlace.size();
      } else if (rest.starts_with(kIndexPlace)) {
        flush();
        parts.push_back({{"regex", kIndex}});
        i += kIndexPlace.size();
      } else if (rest.starts_with(kNumberPlace)) {
        flush();
        parts.push_back({{"regex", kNumber}});
        i += kNumberPlace.size();
      } else if (rest.starts_with(kTypePlace)) {
        flush();
        parts.push_back({{"regex", kOtherType}});
        i += kTypePlace.size();
      } else {
        literal += rest.front();
        ++i;
      }
    }
    flush();
  }

  void add_calls(Json& parts) const {
    add_text(parts, format_.section_open);
    const Json call = any_call();
    const bool several = format_.parallel && request_.parallel;
    if (several && format_.between.empty()) {
      parts.push_back({{"repeat", call}, {"min", 1}});
    } else {
      parts.push_back(call);
    }
    if (several && !format_.between.empty()) {
      Json more = Json::array();
      add_text(more, format_.between);
      more.push_back(call);
      parts.push_back({{"repeat", {{"sequence", std::move(more)}}}});
    }
    add_text(parts, format_.section_close);
  }

  Json any_call() const {
    Json calls = Json::array();
    for (std::size_t tool = 0; tool < request_.tools.size(); ++tool) {
      Json parts = Json::array();
      add_text(parts, format_.open);
      parts.push_back({{"literal", request_.tools[tool].name}});
      add_text(parts, format_.middle);
      add_arguments(parts, tool);
      add_text(parts, format_.close);
      calls.push_back({{"sequence", std::move(parts)}});
    }
    return choice_of(std::move(calls));
  }

  void add_arguments(Json& parts, std::size_t tool) const {
    switch (format_.style) {
      case ArgumentStyle::kJson:
        parts.push_back(json_arguments(request_.tools[tool]));
        break;
      case ArgumentStyle::kTagged:
        for (const Parameter& parameter : plan_.parameters[tool]) {
          Json one = tagged(request_.tools[tool], parameter);
          if (!parameter.required) one = {{"optional", std::move(one)}};
          parts.push_back(std::move(one));
        }
        break;
      case ArgumentStyle::kElements:
        for (const Parameter& parameter : plan_.parameters[tool]) {
          Json one = element(request_.tools[tool], parameter.name, parameter.at, 0);
          if (!parameter.required) one = {{"optional", std::move(one)}};
          parts.push_back(std::move(one));
        }
        break;
      case ArgumentStyle::kPythonic:
      case ArgumentStyle::kBare:
        parts.push_back(named(tool, 0, false));
        break;
    }
  }

  static Json json_arguments(const Tool& tool) {
    if (takes_nothing(tool.parameters)) return {{"literal", "{}"}};
    Json schema = tool.parameters;
    const bool typed = schema.contains("type");
    if (typed ? !tool.strict : !schema.contains("$ref")) schema["type"] = "object";
    return held({{"schema", std::move(schema)}}, tool);
  }

  Json tagged(const Tool& tool, const Parameter& parameter) const {
    const bool typed = !format_.other_close.empty();
    const auto after_key = [&](const std::string& close, Json value) {
      Json parts = Json::array();
      add_text(parts, close);
      parts.push_back(std::move(value));
      return Json{{"sequence", std::move(parts)}};
    };
    const std::string& other_close = typed ? format_.other_close : format_.key_close;
    Json values = Json::array();
    if (parameter.strings != Strings::kNone) {
      values.push_back(
          after_key(format_.key_close, as_text(tool, parameter.at, format_.value_close)));
    }
    if (parameter.strings != Strings::kOnly &&
        (typed || !is_any_text(tool, parameter.at, parameter.strings))) {
      values.push_back(after_key(other_close, as_json(tool, parameter.at, parameter.strings)));
    }
    Json parts = Json::array();
    add_text(parts, format_.key_open);
    parts.push_back({{"literal", parameter.name}});
    parts.push_back(choice_of(std::move(values)));
    add_text(parts, format_.value_close);
    return {{"sequence", std::move(parts)}};
  }

  Json element(const Tool& tool, std::string_view name, const std::string& at, int depth) const {
    Json parts = Json::array();
    add_text(parts, format_.key_open);
    parts.push_back({{"literal", fmt::format("{}{}", name, format_.key_close)}});
    parts.push_back(element_value(tool, at, depth));
    add_text(parts, format_.value_close);
    parts.push_back({{"literal", fmt::format("{}{}", name, format_.key_close)}});
    return {{"sequence", std::move(parts)}};
  }

  Json element_value(const Tool& tool, const std::string& at, int depth) const {
    const Json& document = tool.parameters;
    const ElementSchema its = element_schema(document, at);
    const Json& schema = *value_at(document, its.at);
    if (depth < kMaxElements && its.kind == ElementKind::kObject) {
      const Json required = schema.value("required", Json::array());
      Json parts = Json::array();
      for (const auto& [name, unused] : schema["properties"].items()) {
        Json one = element(tool, name, its.at + "/properties/" + pointer_part(name), depth + 1);
        const bool must = std::ranges::find(required, Json(name)) != required.end();
        parts.push_back(must ? std::move(one) : Json{{"optional", std::move(one)}});
      }
      return {{"sequence", std::move(parts)}};
    }
    if (depth < kMaxElements && its.kind == ElementKind::kArray) {
      Json out = {{"repeat", element(tool, kItem, its.at + "/items", depth + 1)}};
      const auto count = [&](const char* name, const char* keyword) {
        const auto found = schema.find(keyword);
        // Null says nothing where a schema is not strict.
        if (found != schema.end() && (tool.strict || !found->is_null())) out[name] = *found;
      };
      count("min", "minItems");
      count("max", "maxItems");
      if (!tool.strict) out["at"] = its.at;
      return tool.strict ? out : held(std::move(out), tool);
    }
    return text_or_json(tool, its.at, strings_of(document, schema), format_.key_open);
  }

  // A string as it stands that does not hold a text, or another value as JSON.
  Json text_or_json(const Tool& tool, const std::string& at, Strings strings,
                    std::string_view without) const {
    Json values = Json::array();
    if (strings != Strings::kNone) values.push_back(as_text(tool, at, without));
    if (strings != Strings::kOnly && !is_any_text(tool, at, strings)) {
      values.push_back(as_json(tool, at, strings));
    }
    return choice_of(std::move(values));
  }

  // Whether the JSON of other values is a text that a string may be, too: a grammar of both would
  // hold no more, and be beyond its bounds. (A strict schema is held whole, or refused.)
  static bool is_any_text(const Tool& tool, const std::string& at, Strings strings) {
    return !tool.strict && strings == Strings::kSome &&
           takes_any_string(tool.parameters, *value_at(tool.parameters, at));
  }

  static Json as_text(const Tool& tool, const std::string& at, std::string_view without) {
    return held({{"raw", document_of(tool.parameters, at)},
                 {"at", at},
                 {"without", marks_of({std::string(trim_left(without))})}},
                tool);
  }

  static Json as_json(const Tool& tool, const std::string& at, Strings strings) {
    Json out = {{"schema", document_of(tool.parameters, at)}, {"at", at}};
    if (strings == Strings::kSome) {
      Json& schema = out["schema"][Json::json_pointer(at)];
      schema = without_strings(schema);
    }
    return held(std::move(out), tool);
  }

  // A parameter and its value, in the spelling that the format has for nested values.
  Json named_value(const Tool& tool, const Parameter& parameter, bool behind) const {
    Json value = {{"schema", document_of(tool.parameters, parameter.at)}, {"at", parameter.at}};
    const bool bare = format_.style == ArgumentStyle::kBare;
    value["spelling"] = bare ? "bare" : "python";
    if (bare) value["quote"] = format_.quote.substr(1, format_.quote.size() - 2);
    const std::string key = bare ? (behind ? "," : "") + parameter.name + ":"
                                 : (behind ? ", " : "") + parameter.name + "=";
    return {{"sequence", {{{"literal", key}}, held(std::move(value), tool)}}};
  }

  // The parameters from `first` on; `behind` another one, each has a comma ahead.
  Json named(std::size_t tool, std::size_t first, bool behind) const {
    const auto& parameters = plan_.parameters[tool];
    Json parts = Json::array();
    for (std::size_t i = first; i < parameters.size(); ++i) {
      const Parameter& parameter = parameters[i];
      const Json one = named_value(request_.tools[tool], parameter, behind);
      if (!behind && !parameter.required) {
        // With it or without it, the rest is another.
        parts.push_back(
            {{"choice",
              {{{"sequence", {one, named(tool, i + 1, true)}}}, named(tool, i + 1, false)}}});
        break;
      }
      parts.push_back(parameter.required ? one : Json{{"optional", one}});
      behind = true;
    }
    return {{"sequence", std::move(parts)}};
  }

  // Messages of an answer in harmony, the first without its beginning, which the prompt has.
  void add_channels(Json& out, const Json& content, bool may_call) const {
    if (request_.reasoning_opened) add_body(out);
    // What a message of commentary says is content, so that there is none where content has a form
    // or must not be.
    const bool comments = content.is_null() && request_.choice != ToolChoice::kRequired;
    Json ahead = Json::array();
    for (const char* channel : {"analysis", "commentary"}) {
      if (channel == std::string_view("commentary") && !comments) continue;
      Json parts = Json::array();
      add_header(parts, channel);
      add_body(parts);
      ahead.push_back({{"sequence", std::move(parts)}});
    }
    out.push_back({{"repeat", {{"choice", std::move(ahead)}}}});
    Json last = Json::array();
    if (request_.choice != ToolChoice::kRequired) {
      Json parts = Json::array();
      add_header(parts, "final");
      parts.push_back(content.is_null() ? Json{{"free", Json::array()}} : content);
      last.push_back({{"sequence", std::move(parts)}});
    }
    if (may_call) {
      for (const Tool& tool : request_.tools) last.push_back(channel_call(tool));
    }
    out.push_back(choice_of(std::move(last)));
  }

  // Free text, and the begin of the next message.
  static void add_body(Json& parts) {
    parts.push_back({{"free", Json::array()}});
    for (const char* token : {"<|end|>", "<|start|>"}) parts.push_back({{"token", token}});
    parts.push_back({{"literal", "assistant"}});
  }

  static void add_header(Json& parts, const std::string& channel) {
    parts.push_back({{"token", "<|channel|>"}});
    parts.push_back({{"literal", channel}});
    parts.push_back({{"token", "<|message|>"}});
  }

  // The recipient stands behind the role or behind the channel.
  static Json channel_call(const Tool& tool) {
    const std::string to = " to=functions." + tool.name;
    const Json channel = {{"token", "<|channel|>"}};
    const Json json = {{"optional",
                        {{"sequence",
                          {{{"literal", " "}},
                           {{"optional", {{"token", "<|constrain|>"}}}},
                           {{"literal", "json"}}}}}}};
    return {{"sequence",
             {{{"choice",
                {{{"sequence", {{{"literal", to}}, channel, {{"literal", "commentary"}}}}},
                 {{"sequence", {channel, {{"literal", "commentary" + to}}}}}}}},
              json,
              {{"token", "<|message|>"}},
              json_arguments(tool)}}};
  }

  const AnswerPlan::Data& plan_;
  const CallFormat& format_;
  const AnswerRequest& request_;
};

}  // namespace

Result<std::string> write_structure(const AnswerPlan::Data& plan) {
  return StructureWriter(plan).write();
}

}  // namespace dovetail::dialog
