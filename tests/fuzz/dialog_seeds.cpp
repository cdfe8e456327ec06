#include "fuzz/dialog_seeds.h"

#include <nlohmann/json.hpp>

#include "dialog/families.h"
#include "dialog/texts.h"

namespace dovetail::fuzz {
namespace {

Json call(const char* name, Json arguments) {
  return {{"id", "callA0001"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

}  // namespace

// Two calls behind content, and reasoning ahead of it where the format has it: the plans are two of
// each format, without and with reasoning that the prompt opened.
std::vector<std::string> dialog_seeds() {
  std::vector<std::string> out;
  for (const dialog::test::Family& family : dialog::test::families()) {
    const dialog::DialogFormat format = dialog::test::detect(family);
    const Json calls =
        Json::array({call("f", {{"s", "a \"b\"\n<c>"}, {"n", -7}, {"m", {"x", nullptr}}}),
                     call("f2", Json::object())});
    std::string text;
    if (format.reasoning() != nullptr)
      text = format.reasoning()->open + "\nHm.\n" + format.reasoning()->close + "\n\n";
    text += "Well.\n" + dialog::write_calls(format.calls(), calls).text;
    const auto plan = static_cast<char>(out.size());
    for (const int opened : {0, 1})
      out.push_back(std::string{static_cast<char>(plan + opened), 5} + format.marked(text));
  }
  return out;
}

// One schema for each format; the second byte is what is asked, of which each seed has another.
std::vector<std::string> dialog_plan_seeds() {
  constexpr const char* kSchemas[] = {
      R"({"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"}},
          "required":["s"]})",
      R"({"type":"object","properties":{"m":{"anyOf":[{"type":"string"},{"type":"null"}]},
          "l":{"type":"array","items":{"$ref":"#/$defs/e"},"maxItems":2}},
          "$defs":{"e":{"enum":["a","b c"]}}})",
      R"({"type":"object","properties":{"x":{"type":["integer","string"],"maximum":9}},
          "additionalProperties":false})",
  };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < dialog::test::families().size(); ++i) {
    const auto asked = static_cast<char>(i * 5 % 32);
    out.push_back(std::string{static_cast<char>(i), asked, 3} + kSchemas[i % std::size(kSchemas)]);
  }
  return out;
}

}  // namespace dovetail::fuzz
