#include "serve/output_format.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {
namespace {

using Asked = Outcome<std::optional<OutputFormat>>;

Asked read_json_schema(const std::string& field, const Json& value, UnknownFields& unknown) {
  if (!value.is_object()) return bad_field(field, "expected an object, got {}", shown(value));
  bool strict = unknown.strict();
  for (const auto& [key, member] : value.items()) {
    const std::string at = fmt::format("{}.{}", field, key.substr(0, 64));
    if (member.is_null() || key == "schema") continue;
    if (key != "strict" && key != "name" && key != "description") {
      if (auto found = unknown.meet(at)) return tl::unexpected<ApiError>(*std::move(found));
    } else if (key == "strict") {
      const auto wanted = read_bool(at, member);
      if (!wanted) return tl::unexpected<ApiError>(wanted.error());
      strict = *wanted;
    } else if (!member.is_string()) {
      return bad_field(at, "expected a string, got {}", shown(member));
    }
  }
  const std::string at = field + ".schema";
  const auto schema = value.find("schema");
  if (schema == value.end() || schema->is_null()) return bad_field(at, "is missing");
  return OutputFormat{at, GrammarKind::kJsonSchema, schema->dump(), strict};
}

// What is compiled: a schema of which something may be left out is a structure's.
OutputFormat compiled_form(const OutputFormat& format) {
  if (format.kind != GrammarKind::kJsonSchema || format.strict) return format;
  const Json schema = Json::parse(format.text, nullptr, false);
  if (schema.is_discarded()) return format;
  return {format.field, GrammarKind::kStructure,
          Json{{"schema", schema}, {"lenient", true}, {"name", format.field}}.dump()};
}

// A regular expression that matches the text alone.
std::string pattern_of(std::string_view text) {
  constexpr std::string_view kSyntax = "\\^$.*+?()[]{}|/";
  std::string out;
  for (const char c : text) {
    if (kSyntax.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

Asked read_json_object(std::string_view field, const Json& value) {
  auto wanted = read_bool(field, value);
  if (!wanted) return tl::unexpected<ApiError>(std::move(wanted.error()));
  if (!*wanted) return std::optional<OutputFormat>();
  return OutputFormat{std::string(field), GrammarKind::kJsonObject, ""};
}

struct StructuredOutput {
  std::string_view name;
  Asked (*read)(std::string_view field, const Json& value);
};

constexpr StructuredOutput kStructuredOutputs[] = {
    {"grammar", read_guided_grammar},  {"json", read_guided_json},
    {"regex", read_guided_regex},      {"choice", read_guided_choice},
    {"json_object", read_json_object},
};

Outcome<CompiledGrammar> outcome_of(const OutputFormat& format, Result<CompiledGrammar> grammar) {
  if (grammar) return *std::move(grammar);
  const Error& error = grammar.error();
  if (error.kind == ErrorKind::kInvalid || error.kind == ErrorKind::kUnsupported) {
    // A document may have the field's name, for what is left out of it.
    std::string_view message = error.message;
    const std::string name = format.field + ": ";
    if (message.starts_with(name)) message.remove_prefix(name.size());
    return bad_field(format.field, "{}", message);
  }
  return tl::unexpected<ApiError>(from_engine(error));
}

}  // namespace

Asked read_flat_format(std::string_view field, const Json& value, UnknownFields& unknown) {
  if (!value.is_object() || value.value("type", Json()) != "json_schema")
    return read_response_format(field, value, unknown);
  Json members = value;
  members.erase("type");
  return read_json_schema(std::string(field), members, unknown);
}

Asked read_response_format(std::string_view field, const Json& value, UnknownFields& unknown) {
  constexpr std::string_view kTypes = "\"text\", \"json_object\" or \"json_schema\"";
  const auto type = value.is_object() ? value.find("type") : value.end();
  if (!value.is_object() || type == value.end()) {
    return bad_field(field, "expected an object with a \"type\": {}, got {}", kTypes, shown(value));
  }
  const bool has_schema = *type == Json("json_schema");
  const bool is_object = *type == Json("json_object");
  if (!has_schema && !is_object && *type != Json("text"))
    return bad_field(fmt::format("{}.type", field), "expected {}, got {}", kTypes, shown(*type));
  for (const auto& [key, member] : value.items()) {
    if (key == "type" || member.is_null()) continue;
    if ((key == "json_schema" && has_schema) || (key == "schema" && is_object)) continue;
    const std::string at = fmt::format("{}.{}", field, key.substr(0, 64));
    if (key == "json_schema" || key == "schema") {
      return bad_field(at, "contradicts the type {}; expected {}", type->dump(),
                       has_schema ? "json_schema" : "the type \"json_schema\"");
    }
    if (auto found = unknown.meet(at)) return tl::unexpected<ApiError>(*std::move(found));
  }
  if (has_schema) {
    const std::string inside = fmt::format("{}.json_schema", field);
    const auto schema = value.find("json_schema");
    if (schema == value.end()) return bad_field(inside, "is missing");
    return read_json_schema(inside, *schema, unknown);
  }
  if (!is_object) return std::optional<OutputFormat>();
  const auto schema = value.find("schema");
  if (schema == value.end() || schema->is_null())
    return OutputFormat{std::string(field), GrammarKind::kJsonObject, ""};
  return OutputFormat{fmt::format("{}.schema", field), GrammarKind::kJsonSchema, schema->dump(),
                      unknown.strict()};
}

Asked read_guided_json(std::string_view field, const Json& value) {
  if (!value.is_object() && !value.is_string()) {
    return bad_field(field, "expected a JSON schema or its text, got {}", shown(value));
  }
  return OutputFormat{std::string(field), GrammarKind::kJsonSchema,
                      value.is_string() ? value.get<std::string>() : value.dump()};
}

Asked read_guided_regex(std::string_view field, const Json& value) {
  auto text = read_string(field, value);
  if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
  return OutputFormat{std::string(field), GrammarKind::kRegex, std::move(*text)};
}

Asked read_guided_grammar(std::string_view field, const Json& value) {
  auto text = read_string(field, value);
  if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
  if (text->empty()) return std::optional<OutputFormat>();
  return OutputFormat{std::string(field), GrammarKind::kGbnf, std::move(*text)};
}

Asked read_guided_choice(std::string_view field, const Json& value) {
  constexpr std::size_t kMostChoices = 4096;
  if (!value.is_array() || value.empty() || value.size() > kMostChoices) {
    const std::string got = value.is_array() ? fmt::format("{}", value.size()) : shown(value);
    return bad_field(field, "expected an array of 1 to {} strings, got {}", kMostChoices, got);
  }
  std::string pattern;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    auto text = read_string(at, value[i]);
    if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
    if (text->empty()) return bad_field(at, "is empty; expected at least one character");
    if (i > 0) pattern += '|';
    pattern += pattern_of(*text);
  }
  return OutputFormat{std::string(field), GrammarKind::kRegex, std::move(pattern)};
}

Asked read_structured_outputs(std::string_view field, const Json& value) {
  constexpr std::string_view kExpected =
      "one of \"json\", \"regex\", \"choice\", \"grammar\", \"json_object\"";
  if (!value.is_object()) {
    return bad_field(field, "expected an object with {}, got {}", kExpected, shown(value));
  }
  std::optional<OutputFormat> format;
  for (const auto& [key, member] : value.items()) {
    if (member.is_null()) continue;
    const std::string at = fmt::format("{}.{}", field, key.substr(0, 64));
    const auto* known = std::find_if(std::begin(kStructuredOutputs), std::end(kStructuredOutputs),
                                     [&key = key](const auto& each) { return each.name == key; });
    if (known == std::end(kStructuredOutputs)) {
      // Switches that are off ask for nothing.
      if (member == false) continue;
      return bad_field(at, "is not supported; expected {}", kExpected);
    }
    auto asked = known->read(at, member);
    if (!asked) return asked;
    if (!*asked) continue;
    if (format) return bad_field(at, "contradicts {}; expected {}", format->field, kExpected);
    format = **std::move(asked);
  }
  return format;
}

Outcome<CompiledGrammar> compile(const OutputFormat& format, const Backend& backend,
                                 const std::atomic<bool>& stop) {
  const OutputFormat form = compiled_form(format);
  return outcome_of(form, backend.compile(form.kind, form.text, stop));
}

std::optional<Outcome<CompiledGrammar>> known_outcome(const OutputFormat& format,
                                                      const Backend& backend) {
  if (!backend.compile || !backend.find_grammar) {
    return Outcome<CompiledGrammar>(bad_field(format.field, "not supported here"));
  }
  const OutputFormat form = compiled_form(format);
  auto known = backend.find_grammar(form.kind, form.text);
  if (!known) return std::nullopt;
  return outcome_of(format, *std::move(known));
}

}  // namespace dovetail::serve
