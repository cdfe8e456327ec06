#include "cli/result_line.h"

#include "engine/finish_name.h"

namespace dovetail::cli {
namespace {

Json token_json(const text::Tokenizer& tokenizer, TokenId id, float logprob) {
  return {{"id", id}, {"token", tokenizer.token_text(id)}, {"logprob", logprob}};
}

Json logprobs_json(const std::vector<OutputToken>& tokens, const text::Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = token_json(tokenizer, token.id, token.logprob);
    Json& top = entry["top"] = Json::array();
    for (const TokenLogprob& other : token.top)
      top.push_back(token_json(tokenizer, other.id, other.logprob));
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string result_lines(const InputRecord& record, const std::vector<Answer>& answers,
                         const text::Tokenizer& tokenizer) {
  std::string lines;
  for (std::size_t choice = 0; choice < answers.size(); ++choice) {
    const Answer& answer = answers[choice];
    Json line = {{"index", record.index}};
    if (!record.id.is_null()) line["id"] = record.id;
    if (record.request.n > 1) line["choice"] = choice;
    line["text"] = answer.text;
    line["finish_reason"] = engine::finish_name(answer.finish);
    line["prompt_tokens"] = answer.usage.prompt_tokens;
    line["completion_tokens"] = answer.usage.completion_tokens;
    if (record.expect) line["as_expected"] = answer.text == *record.expect;
    if (record.request.logprobs >= 0) line["logprobs"] = logprobs_json(answer.tokens, tokenizer);
    if (answer.finish == FinishReason::kError) line["error"] = answer.error.message;
    if (!record.metadata.is_null()) line["metadata"] = record.metadata;
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace);
    lines += '\n';
  }
  return lines;
}

}  // namespace dovetail::cli
