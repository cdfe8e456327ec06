#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/markdown_colours.h"
#include "dialog/answer.h"

namespace dovetail::cli {

// What a person sees of a chat.
struct ChatLook {
  bool interactive = false;  // messages come from a terminal: say what happens beside the answers
  bool terminal = false;     // answers go to one
  bool colours = false;
};

// One answer while it comes, and what is shown of it. On a terminal: the reasoning, dimmed (without
// colours, between lines that name the two), then the content with its Markdown coloured, all with
// visible stand-ins for control characters. Elsewhere the content as it is, and no reasoning.
class AnswerView {
 public:
  // Without a plan all of an answer is content.
  AnswerView(const std::optional<dialog::AnswerPlan>& plan, const ChatLook& look);

  // Takes whole characters; appends what is to be written to `out`.
  void push(std::string_view piece, std::string& out);
  // Ends the answer. No colour stays on.
  void finish(std::string& out);

  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  void take(const dialog::AnswerEvent& event, std::string& out);
  void show_reasoning(std::string_view piece, std::string& out);
  void end_reasoning(bool content_follows, std::string& out);
  void show_content(std::string_view piece, std::string& out);

  std::optional<dialog::AnswerReader> reader_;
  ChatLook look_;
  MarkdownColours colours_;
  std::string content_, reasoning_;
  bool in_reasoning_ = false;
};

}  // namespace dovetail::cli
