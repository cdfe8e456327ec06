#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/answer_view.h"
#include "cli/conversation.h"
#include "cli/generation.h"
#include "cli/output.h"
#include "cli/sampling_settings.h"
#include "dialog/format.h"
#include "dovetail/engine.h"
#include "text/prompt_encoder.h"

namespace dovetail::cli {

// What an answer took.
struct AnswerCost {
  Usage usage;
  double first_seconds = 0.0;  // from the message to the first text
  double next_seconds = 0.0;   // from there to the end

  // "42 tokens, 85.3 tokens/s, first after 0.21 s"
  std::string text() const;
};

// A conversation with a model: messages, how to sample, what answers took. Answers go to the
// standard output as they come, everything else to standard error. One thread; an InterruptGuard
// must live.
class ChatSession {
 public:
  // `engine` and `encoder` must outlive it; `format` is that of the encoder's template.
  // `longest_context`: the most that --max-model-len may make of the engine's context.
  ChatSession(Engine& engine, const text::PromptEncoder& encoder, dialog::DialogFormat format,
              SamplingSettings settings, const std::string& system, ChatLook look,
              OutputFile output, std::uint32_t longest_context);

  // One turn. SIGINT and SIGTERM stop the answer; what came until then counts. A turn that fails,
  // or is stopped before anything but reasoning came, leaves no trace in the conversation.
  Status ask(const std::string& message);
  // Answers the last message again, with another seed.
  Status regenerate();

  // Replaces all messages.
  void start(Conversation conversation);
  Conversation& conversation() { return conversation_; }

  SamplingSettings& settings() { return settings_; }
  Request request() const;  // without a prompt

  // Whether the model's template takes these messages.
  Status check(const Conversation& conversation) const;

  std::string stats() const;  // lines
  const std::string& model() const;
  const ChatLook& look() const { return look_; }

  // A line for the user: on standard error, and only if interactive.
  void remark(std::string_view line) const;

  // The standard output takes nothing any more.
  bool output_failed() const { return output_failed_; }

  void end() { ended_ = true; }
  bool ended() const { return ended_; }

 private:
  Result<text::MarkedText> render(const Conversation& conversation,
                                  std::int32_t reasoning_budget) const;
  // Bounds the answer by the room behind the request's prompt.
  Status fit(Request& request) const;
  // What makes room, of what there is to do.
  std::string ways_to_room() const;
  Status answer(Conversation next, Request request);
  Result<Answer> generate(Request request, AnswerView& view, AnswerCost& cost);

  Engine& engine_;
  const text::PromptEncoder& encoder_;
  dialog::DialogFormat format_;
  SamplingSettings settings_;
  ChatLook look_;
  OutputFile output_;
  std::uint32_t longest_context_;
  Conversation conversation_;
  std::uint64_t retries_ = 0;  // of the last message
  AnswerCost last_;
  std::uint64_t answers_ = 0, prompt_tokens_ = 0, cached_tokens_ = 0, completion_tokens_ = 0;
  bool ended_ = false, output_failed_ = false;
};

}  // namespace dovetail::cli
