#include "dialog/random_calls.h"

#include <gtest/gtest.h>

namespace dovetail::dialog::test {

namespace {

// Letters that are in tags, quotes, escapes and lines.
std::string random_text(Random& random) {
  static const std::vector<std::string> kPieces = {
      "a", "word",   " ",  "\n", "\"", "'",         "\\", "<",          "</",     ">",   "{",
      "}", "[",      "]",  ",",  ":",  "é",         "日", "\t",         "\\n",    "=",   "(",
      ")", "</para", "|>", "<|", "😀",  "{\"name\"", "1",  "</arg_valu", "<think", "&lt;"};
  std::string out;
  for (std::size_t i = random.below(12); i > 0; --i) out += random.of(kPieces);
  return out;
}

Json random_schema(Random& random, int depth) {
  switch (random.below(depth > 1 ? 5 : 10)) {
    case 0:
    case 1:
      return {{"type", "string"}};
    case 2:
      return {{"type", "integer"}};
    case 3:
      return {{"type", "boolean"}};
    case 4:
      return {{"enum", {"celsius", "far en heit", "a\"b"}}};
    case 5:
      return {{"type", "array"}, {"items", random_schema(random, depth + 1)}, {"maxItems", 3}};
    case 6:
      return {{"type", "object"},
              {"properties",
               {{"x", random_schema(random, depth + 1)}, {"y", random_schema(random, depth + 1)}}},
              {"required", {"x"}}};
    case 7:
      return Json::parse(R"({"anyOf":[{"type":"string"},{"type":"null"}]})");
    case 8:
      return Json::parse(R"({"type":["integer","string"],"minimum":5,"maximum":900})");
    default:
      return Json::parse(R"({"$ref":"#/$defs/named"})");
  }
}

Json random_value(Random& random, const Json& schema) {
  if (schema.contains("$ref")) return {{"name", random_text(random)}};
  if (schema.contains("enum")) return schema["enum"][random.below(3)];
  if (schema.contains("anyOf")) {
    return random.one_in(2) ? Json() : Json("t" + random_text(random));
  }
  if (schema["type"].is_array()) {
    return random.one_in(2) ? Json(5 + random.below(800)) : Json("t" + random_text(random));
  }
  const std::string& type = schema["type"].get_ref<const std::string&>();
  if (type == "string") return random_text(random);
  if (type == "integer") return static_cast<int>(random.below(2000)) - 1000;
  if (type == "boolean") return random.one_in(2);
  if (type == "array") {
    Json out = Json::array();
    for (std::size_t i = random.below(4); i > 0; --i) {
      out.push_back(random_value(random, schema["items"]));
    }
    return out;
  }
  Json out = {{"x", random_value(random, schema["properties"]["x"])}};
  if (random.one_in(2)) out["y"] = random_value(random, schema["properties"]["y"]);
  return out;
}

}  // namespace

std::vector<Tool> random_tools(Random& random) {
  static const std::vector<std::string> kNames = {"get", "get_weather", "a", "look-up", "Search9"};
  static const std::vector<std::string> kKeys = {"a", "ab", "query", "n_1", "Unit", "name"};
  std::vector<Tool> out;
  for (const std::string& name : kNames) {
    if (!out.empty() && random.one_in(2)) continue;
    Tool tool{.name = name, .description = "Does " + name, .parameters = Json::object()};
    if (!random.one_in(6)) {
      tool.parameters = Json::parse(
          R"({"type":"object","properties":{},"required":[],
              "$defs":{"named":{"type":"object","properties":{"name":{"type":"string"}},
                                "required":["name"]}}})");
      for (const std::string& key : kKeys) {
        if (random.one_in(2)) continue;
        tool.parameters["properties"][key] = random_schema(random, 0);
        if (random.one_in(2)) tool.parameters["required"].push_back(key);
      }
      if (tool.parameters["required"].empty()) tool.parameters.erase("required");
    }
    out.push_back(std::move(tool));
  }
  return out;
}

Json random_arguments(Random& random, const Tool& tool) {
  Json out = Json::object();
  if (!tool.parameters.contains("properties")) return out;
  const Json required = tool.parameters.value("required", Json::array());
  for (const auto& item : tool.parameters["properties"].items()) {
    const bool must = std::ranges::find(required, Json(item.key())) != required.end();
    if (must || random.one_in(2)) out[item.key()] = random_value(random, item.value());
  }
  return out;
}

Read read(const AnswerPlan& plan, std::string_view text, const std::vector<std::size_t>& sizes) {
  Read out;
  AnswerReader reader(plan);
  const auto take = [&](const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) {
      using Kind = AnswerEvent::Kind;
      if (event.kind == Kind::kContent) {
        out.content += event.text;
      } else if (event.kind == Kind::kReasoning) {
        out.reasoning += event.text;
      } else if (event.kind == Kind::kCallBegin) {
        EXPECT_EQ(event.call, out.calls.size());
        out.calls.push_back({.name = event.text, .arguments = "", .id = event.id});
      } else {
        ASSERT_FALSE(out.calls.empty());
        EXPECT_EQ(event.call + 1, out.calls.size());
        Read::Call& call = out.calls.back();
        EXPECT_FALSE(call.ended);
        call.arguments += event.text;
        if (event.kind == Kind::kCallEnd) call.ended = true;
        if (!event.id.empty() && event.kind == Kind::kCallEnd) call.id = event.id;
      }
    }
  };
  for (std::size_t i = 0; !text.empty(); ++i) {
    const std::size_t size = std::min(text.size(), sizes[i % sizes.size()]);
    take(reader.feed(text.substr(0, size)));
    text.remove_prefix(size);
  }
  take(reader.finish());
  EXPECT_EQ(reader.calls(), out.calls.size());
  return out;
}

}  // namespace dovetail::dialog::test
