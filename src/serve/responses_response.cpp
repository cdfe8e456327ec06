#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answers.h"
#include "serve/dialog_store.h"
#include "serve/token_logprobs.h"

namespace dovetail::serve {
namespace {

using Kind = dialog::AnswerEvent::Kind;

// An event of the stream, numbered.
std::string numbered_event(ChoiceState& choice, const char* type, Json members) {
  Json json;
  json["type"] = type;
  json["sequence_number"] = choice.events++;
  for (auto& [key, value] : members.items()) json[key] = std::move(value);
  return fmt::format("event: {}\n", type) + sse(json);
}

// An item of the output: what is open of it, or whole, as far as it was not cut.
Json item_json(const ChoiceState& choice, const OpenPart& part, bool whole, bool cut = false) {
  Json item;
  item["id"] = part.id;
  const char* status = !whole ? "in_progress" : cut ? "incomplete" : "completed";
  if (part.kind == Kind::kReasoning) {
    item["type"] = "reasoning";
    item["summary"] = Json::array();
    item["content"] = Json::array();
    if (whole) item["content"].push_back({{"type", "reasoning_text"}, {"text", part.text}});
    item["status"] = status;
  } else if (part.kind == Kind::kContent) {
    item["type"] = "message";
    item["status"] = status;
    item["role"] = "assistant";
    item["content"] = Json::array();
  } else {
    const CallState& call = choice.calls[part.call];
    item["type"] = "function_call";
    item["status"] = status;
    item["call_id"] = call.id;
    item["name"] = call.name;
    item["arguments"] = whole ? part.text : "";
  }
  return item;
}

Json output_text(const std::string& text, Json logprobs = Json::array()) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", std::move(logprobs)}};
}

// Where an event belongs.
Json part_place(const ChoiceState& choice, const OpenPart& part) {
  Json place;
  place["item_id"] = part.id;
  place["output_index"] = choice.items.size();
  if (part.kind == Kind::kReasoning || part.kind == Kind::kContent) place["content_index"] = 0;
  return place;
}

Json with(Json place, const char* key, Json value) {
  place[key] = std::move(value);
  return place;
}

std::string begin_item(const std::string& response, ChoiceState& choice,
                       const dialog::AnswerEvent& event) {
  const char* begin = event.kind == Kind::kReasoning ? "rs_"
                      : event.kind == Kind::kContent ? "msg_"
                                                     : "fc_";
  choice.open = OpenPart{event.kind, item_id(begin, response, choice.items.size()), {}, event.call};
  std::string out = numbered_event(
      choice, "response.output_item.added",
      {{"output_index", choice.items.size()}, {"item", item_json(choice, *choice.open, false)}});
  if (event.kind == Kind::kContent) {
    out += numbered_event(choice, "response.content_part.added",
                          with(part_place(choice, *choice.open), "part", output_text("")));
  }
  return out;
}

// `at_end`: the answer ended with it.
std::string end_item(ChoiceState& choice, bool at_end = false) {
  if (!choice.open) return {};
  OpenPart part = *std::exchange(choice.open, std::nullopt);
  const Json place = part_place(choice, part);
  const bool is_call = part.kind != Kind::kReasoning && part.kind != Kind::kContent;
  const bool cut =
      is_call ? !choice.calls[part.call].ended : at_end && choice.finish == FinishReason::kLength;
  Json item = item_json(choice, part, true, cut);
  std::string out;
  if (part.kind == Kind::kReasoning) {
    out += numbered_event(choice, "response.reasoning_text.done", with(place, "text", part.text));
  } else if (part.kind == Kind::kContent) {
    Json done = with(place, "text", part.text);
    done["logprobs"] = part.logprobs;
    Json text = output_text(part.text, std::move(part.logprobs));
    out += numbered_event(choice, "response.output_text.done", std::move(done));
    out += numbered_event(choice, "response.content_part.done", with(place, "part", text));
    item["content"].push_back(std::move(text));
  } else {
    Json done = with(place, "arguments", part.text);
    done["name"] = item["name"];
    out += numbered_event(choice, "response.function_call_arguments.done", std::move(done));
  }
  out += numbered_event(choice, "response.output_item.done",
                        {{"output_index", choice.items.size()}, {"item", item}});
  choice.items.push_back(dump(item));
  return out;
}

std::string add_to_item(ChoiceState& choice, const dialog::AnswerEvent& event, Json logprobs) {
  choice.open->text += event.text;
  const char* type = event.kind == Kind::kReasoning ? "response.reasoning_text.delta"
                     : event.kind == Kind::kContent ? "response.output_text.delta"
                                                    : "response.function_call_arguments.delta";
  Json members = with(part_place(choice, *choice.open), "delta", event.text);
  if (event.kind == Kind::kContent) {
    for (const Json& each : logprobs) choice.open->logprobs.push_back(each);
    members["logprobs"] = std::move(logprobs);
  }
  return numbered_event(choice, type, std::move(members));
}

Json usage_of_response(const Answers& answers) {
  const TokenCounts counts = token_counts(answers);
  Json usage;
  usage["input_tokens"] = counts.prompt;
  usage["input_tokens_details"]["cached_tokens"] = counts.cached;
  usage["output_tokens"] = counts.completion;
  usage["output_tokens_details"]["reasoning_tokens"] = counts.reasoning;
  usage["total_tokens"] = counts.prompt + counts.completion;
  return usage;
}

// The response as such; with its usage once it has ended.
Json response_json(const Answers& answers, bool ended) {
  const ChoiceState& choice = answers.choices.front();
  const bool cut = ended && choice.finish == FinishReason::kLength;
  Json json;
  json["id"] = answers.label.id;
  json["object"] = "response";
  json["created_at"] = answers.label.created;
  json["status"] = !ended ? "in_progress" : cut ? "incomplete" : "completed";
  json["error"] = nullptr;
  json["incomplete_details"] = cut ? Json{{"reason", "max_output_tokens"}} : Json(nullptr);
  json["model"] = answers.label.model;
  json["output"] = Json::array();
  for (const std::string& item : choice.items) json["output"].push_back(Json::parse(item));
  for (const auto& [key, value] : answers.generation.repeated.items()) json[key] = value;
  json["usage"] = ended ? usage_of_response(answers) : Json(nullptr);
  return json;
}

// Keeps the response, and the dialog with it for requests that go on from it.
void keep_response(const Answers& answers, std::string response) {
  const Generation& generation = answers.generation;
  if (generation.dialogs == nullptr) return;
  const ChoiceState& choice = answers.choices.front();
  Json messages = generation.messages;
  Json answer = {{"role", "assistant"}, {"content", choice.text}};
  if (!choice.reasoning.empty()) answer["reasoning_content"] = choice.reasoning;
  for (const CallState& call : choice.calls) {
    answer["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  messages.push_back(std::move(answer));
  generation.dialogs->put(answers.label.id, generation.key, messages, std::move(response));
}

std::string open_response(Answers& answers) {
  ChoiceState& choice = answers.choices.front();
  const Json response = response_json(answers, false);
  std::string out = numbered_event(choice, "response.created", {{"response", response}});
  return out += numbered_event(choice, "response.in_progress", {{"response", response}});
}

// Of the tokens of the content, when their text is there: tokens count to what their text says, and
// to content where that is several things.
Json content_logprobs(const Answers& answers, ChoiceState& choice, const News& news) {
  if (answers.request_of(0).logprobs < 0) return Json::array();
  // Within reasoning and calls a token without a text is a mark of the format.
  const bool is_mark = news.events.empty() && choice.open && choice.open->kind != Kind::kContent;
  if (is_mark) return Json::array();
  choice.untold.insert(choice.untold.end(), news.tokens.begin(), news.tokens.end());
  if (news.events.empty() && !news.finished) return Json::array();
  const std::vector<OutputToken> told = std::exchange(choice.untold, {});
  const bool is_content = std::any_of(news.events.begin(), news.events.end(),
                                      [](const auto& each) { return each.kind == Kind::kContent; });
  if (is_content) return dialog_logprobs(told, answers.token_bytes);
  // What ends an answer has no text.
  if (news.events.empty() && choice.open && choice.open->kind == Kind::kContent) {
    for (Json& each : dialog_logprobs(told, answers.token_bytes))
      choice.open->logprobs.push_back(std::move(each));
  }
  return Json::array();
}

std::string add_to_response(Answers& answers, std::size_t index, const News& news) {
  ChoiceState& choice = answers.choices[index];
  Json logprobs = content_logprobs(answers, choice, news);
  std::string out;
  for (const dialog::AnswerEvent& event : news.events) {
    switch (event.kind) {
      case Kind::kReasoning:
      case Kind::kContent:
        if (!choice.open || choice.open->kind != event.kind) {
          out += end_item(choice);
          out += begin_item(answers.label.id, choice, event);
        }
        out += add_to_item(choice, event, std::exchange(logprobs, Json::array()));
        break;
      case Kind::kCallBegin:
        out += end_item(choice);
        out += begin_item(answers.label.id, choice, event);
        break;
      case Kind::kArguments:
        out += add_to_item(choice, event, Json());
        break;
      case Kind::kCallEnd:
        out += end_item(choice);
        break;
    }
  }
  if (news.finished) out += end_item(choice, true);
  return out;
}

std::string close_response(Answers& answers) {
  ChoiceState& choice = answers.choices.front();
  Json response = response_json(answers, true);
  keep_response(answers, dump(response));
  const bool cut = choice.finish == FinishReason::kLength;
  return numbered_event(choice, cut ? "response.incomplete" : "response.completed",
                        {{"response", std::move(response)}});
}

std::string fail_response(const ApiError& error) {
  Json json;
  json["type"] = "error";
  json["code"] = error.code.empty() ? std::string(error_type(error.status)) : error.code;
  json["message"] = error.message;
  json["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  json["sequence_number"] = 0;
  return "event: error\n" + sse(json);
}

std::vector<std::string> response_body(Answers& answers) {
  std::string response = dump(response_json(answers, true));
  keep_response(answers, response);
  return {std::move(response)};
}

}  // namespace

// OpenAI's Responses API.
const Dialect kResponsesDialect = {.id_begin = kResponseBegin,
                                   .open = open_response,
                                   .add = add_to_response,
                                   .close = close_response,
                                   .fail = fail_response,
                                   .body = response_body,
                                   .keeps = true};

}  // namespace dovetail::serve
