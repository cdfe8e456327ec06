#include "serve/choice_body.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {

std::vector<std::string> body_of_choices(
    Answers& answers, std::string_view object,
    const std::function<void(ChoiceState& choice, Json& json)>& fill) {
  std::vector<std::string> parts;
  // The end of an object's text is left open for what follows.
  const auto open_text = [](const Json& json) {
    std::string text = dump(json);
    text.pop_back();
    return text;
  };
  std::string text = open_text(envelope(answers, object));
  const auto add_prompt_logprobs = [&](ChoiceState& from) {
    parts.push_back(std::move(text) + ",\"prompt_logprobs\":");
    parts.push_back(std::move(from.prompt_logprobs));
    text.clear();
  };
  const bool of_dialog = answers.generation.is_dialog;
  text += ",\"choices\":[";
  for (std::size_t index = 0; index < answers.choices.size(); ++index) {
    ChoiceState& from = answers.choices[index];
    Json choice;
    choice["index"] = index;
    fill(from, choice);
    if (index > 0) text += ',';
    text += open_text(choice);
    text += from.logprobs.empty() ? ",\"logprobs\":null" : ",\"logprobs\":";
    char before = '{';
    for (auto& [name, elements] : from.logprobs) {
      const bool array = elements.starts_with('[');
      text += before;
      text += '"' + name + "\":";
      parts.push_back(std::move(text));
      parts.push_back(std::move(elements));
      text.clear();
      if (array) text += ']';
      before = ',';
    }
    if (!from.logprobs.empty()) text += '}';
    text += ",\"finish_reason\":\"";
    text += finish_word(from);
    text += '"';
    if (!of_dialog && !from.prompt_logprobs.empty()) add_prompt_logprobs(from);
    text += '}';
  }
  text += "],\"usage\":" + dump(usage_json(answers));
  ChoiceState& first = answers.choices.front();
  if (of_dialog && !first.prompt_logprobs.empty()) add_prompt_logprobs(first);
  text += '}';
  parts.push_back(std::move(text));
  return parts;
}

}  // namespace dovetail::serve
