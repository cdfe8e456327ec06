#include "cli/chat_session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cli/engine_options.h"
#include "cli/signals.h"
#include "dialog/reasoning_budget.h"
#include "load/model_source.h"

namespace dovetail::cli {
namespace {

constexpr float kChatTemperature = 1.0F;  // of models that recommend none

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::string AnswerCost::text() const {
  const std::uint32_t tokens = usage.completion_tokens;
  std::string line = fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
  if (tokens > 1 && next_seconds > 0.0)
    line += fmt::format(", {:.1f} tokens/s", (tokens - 1) / next_seconds);
  return line + fmt::format(", first after {:.2f} s", first_seconds);
}

ChatSession::ChatSession(Engine& engine, const text::PromptEncoder& encoder,
                         dialog::DialogFormat format, SamplingSettings settings,
                         const std::string& system, ChatLook look, OutputFile output,
                         std::uint32_t longest_context)
    : engine_(engine),
      encoder_(encoder),
      format_(std::move(format)),
      settings_(std::move(settings)),
      look_(look),
      output_(std::move(output)),
      longest_context_(longest_context),
      conversation_(system) {}

Status ChatSession::ask(const std::string& message) {
  Conversation next = conversation_;
  next.add_user(message);
  const Status ok = answer(std::move(next), request());
  if (ok) retries_ = 0;
  return ok;
}

Status ChatSession::regenerate() {
  Conversation next = conversation_;
  if (!next.remove_answer())
    return fail(ErrorKind::kInvalid, "there is no message yet that could be answered again");
  Request again = request();
  if (!conversation_.ends_with_user()) {
    if (again.sampling.temperature == 0.0F)
      remark("temperature 0 gives the same answer again; /set temperature 0.8 lets it vary");
    ++retries_;
  }
  if (again.sampling.seed) *again.sampling.seed += retries_;
  return answer(std::move(next), std::move(again));
}

void ChatSession::start(Conversation conversation) {
  conversation_ = std::move(conversation);
  retries_ = 0;
}

Request ChatSession::request() const {
  return default_request(settings_.options(), load::conversation_defaults(engine_.source()),
                         kChatTemperature);
}

Status ChatSession::check(const Conversation& conversation) const {
  const Result<text::MarkedText> prompt =
      render(conversation, settings_.options().reasoning_budget);
  return prompt ? Status() : fail(prompt.error());
}

const std::string& ChatSession::model() const { return engine_.source().name; }

void ChatSession::remark(std::string_view line) const {
  if (!look_.interactive) return;
  look_.colours ? dimmed_notice(line) : notice(line);
}

Result<text::MarkedText> ChatSession::render(const Conversation& conversation,
                                             std::int32_t reasoning_budget) const {
  Json variables = dialog::reasoning_variables(std::nullopt, reasoning_budget);
  variables["messages"] = conversation.messages();
  format_.prepare(variables, Json());
  const Json messages = std::move(variables["messages"]);
  return encoder_.render(messages, {}, std::move(variables));
}

std::string ChatSession::ways_to_room() const {
  std::vector<std::string> ways;
  Conversation shorter = conversation_;
  if (shorter.remove_exchange()) {
    ways.emplace_back("/undo");
    ways.emplace_back("/clear");
  }
  if (longest_context_ > engine_.options().max_context)
    ways.push_back(fmt::format("a larger --max-model-len (at most {})", longest_context_));
  if (ways.empty()) return "; a shorter message fits";
  const std::string last = std::move(ways.back());
  ways.pop_back();
  return ways.empty() ? fmt::format("; {} makes room", last)
                      : fmt::format("; {} or {} makes room", fmt::join(ways, ", "), last);
}

Status ChatSession::fit(Request& request) const {
  const std::size_t size = request.prompt.size();
  const std::size_t context = engine_.options().max_context;
  if (size >= context) {
    return fail(ErrorKind::kInvalid,
                "the conversation has {} tokens, but the context has {} positions, one of them "
                "for the answer{}",
                size, context, ways_to_room());
  }
  const auto room = static_cast<std::int32_t>(context - size);
  if (request.min_tokens > room) {
    return fail(ErrorKind::kInvalid,
                "min-tokens: {} do not fit behind a conversation of {} tokens, expected at most "
                "{}{}",
                request.min_tokens, size, room, ways_to_room());
  }
  request.max_tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  return {};
}

Status ChatSession::answer(Conversation next, Request request) {
  const std::int32_t budget = settings_.options().reasoning_budget;
  const Result<text::MarkedText> prompt = render(next, budget);
  if (!prompt) return fail(prompt.error());
  request.prompt = encoder_.encode(*prompt);
  const std::int32_t asked_tokens = request.max_tokens;
  if (const Status ok = fit(request); !ok) return ok;
  const bool as_asked = request.max_tokens == asked_tokens;
  std::optional<dialog::AnswerPlan> plan;
  if (format_.reasoning() != nullptr) {
    dialog::AnswerRequest asked;
    asked.reasoning_opened = format_.opens_reasoning(prompt->text);
    auto created = dialog::AnswerPlan::create(format_, std::move(asked));
    if (!created) return fail(created.error());
    request.mark_control_tokens = created->marks();
    plan = *std::move(created);
    request.reasoning = dialog::reasoning_budget(
        format_, prompt->text, {budget, settings_.options().reasoning_budget_message},
        [this](std::string_view text, bool special) {
          return encoder_.tokenizer().encode(text,
                                             {.add_special = false, .parse_special = special});
        });
  }
  AnswerView view(plan, look_);
  AnswerCost cost;
  const Result<Answer> answer = generate(std::move(request), view, cost);
  if (!answer) return fail(answer.error());
  if (answer->finish == FinishReason::kError) return fail(answer->error);
  if (answer->finish == FinishReason::kCancelled && view.content().empty()) {
    remark("stopped before the answer began: the message does not count");
    return {};
  }
  next.add_answer(view.content(), view.reasoning());
  conversation_ = std::move(next);
  last_ = cost;
  ++answers_;
  prompt_tokens_ += cost.usage.prompt_tokens;
  cached_tokens_ += cost.usage.cached_tokens;
  completion_tokens_ += cost.usage.completion_tokens;
  if (answer->finish == FinishReason::kLength) {
    notice(as_asked ? fmt::format("(the answer was cut: max-tokens is {})", asked_tokens)
                    : fmt::format("(the answer was cut: the context of {} positions is full{})",
                                  engine_.options().max_context, ways_to_room()));
  }
  if (view.content().empty() && !view.reasoning().empty())
    notice("(the model reasoned and gave no answer)");
  const bool stopped = answer->finish == FinishReason::kCancelled;
  remark(fmt::format("{}{}", stopped ? "stopped: " : "", cost.text()));
  return {};
}

Result<Answer> ChatSession::generate(Request request, AnswerView& view, AnswerCost& cost) {
  const auto begin = std::chrono::steady_clock::now();
  bool begun = false;
  Status written;
  std::string shown;
  const auto show = [&] {
    written = output_.write(shown);
    shown.clear();
    return written.has_value();
  };
  Result<Answer> answer = stream_answer(
      engine_generator(engine_), std::move(request),
      [&](std::string_view piece) {
        if (!std::exchange(begun, true)) cost.first_seconds = seconds_since(begin);
        view.push(piece, shown);
        return show();
      },
      [] { return InterruptGuard::signal() != 0; });
  if (!begun) cost.first_seconds = seconds_since(begin);
  cost.next_seconds = seconds_since(begin) - cost.first_seconds;
  view.finish(shown);
  if (answer) {
    cost.usage = answer->usage;
    shown += '\n';
  }
  if (written) show();
  output_failed_ = !written;
  if (output_failed_) return fail(written.error());
  return answer;
}

std::string ChatSession::stats() const {
  if (answers_ == 0) return "nothing was answered yet\n";
  const std::uint32_t used = last_.usage.prompt_tokens + last_.usage.completion_tokens;
  const std::uint32_t context = engine_.options().max_context;
  std::string text;
  text += fmt::format("last answer  {}\n", last_.text());
  text += fmt::format("its prompt   {} tokens, {} of them cached\n", last_.usage.prompt_tokens,
                      last_.usage.cached_tokens);
  text += fmt::format("context      {} of {} tokens used ({:.0f} %)\n", used, context,
                      100.0 * used / context);
  text += fmt::format("in all       {} answer{} of {} tokens; prompts of {} tokens, {} cached\n",
                      answers_, answers_ == 1 ? "" : "s", completion_tokens_, prompt_tokens_,
                      cached_tokens_);
  return text;
}

}  // namespace dovetail::cli
