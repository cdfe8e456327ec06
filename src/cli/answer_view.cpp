#include "cli/answer_view.h"

#include "text/visible_text.h"

namespace dovetail::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";
constexpr std::string_view kReasoningLine = "[reasoning]\n", kAnswerLine = "[answer]\n";

}  // namespace

AnswerView::AnswerView(const std::optional<dialog::AnswerPlan>& plan, const ChatLook& look)
    : look_(look) {
  if (plan) reader_.emplace(*plan);
}

void AnswerView::push(std::string_view piece, std::string& out) {
  if (!reader_) return show_content(piece, out);
  for (const dialog::AnswerEvent& event : reader_->feed(piece)) take(event, out);
}

void AnswerView::finish(std::string& out) {
  if (reader_) {
    for (const dialog::AnswerEvent& event : reader_->finish()) take(event, out);
  }
  if (in_reasoning_) end_reasoning(false, out);
  colours_.finish(out);
}

void AnswerView::take(const dialog::AnswerEvent& event, std::string& out) {
  if (event.kind == dialog::AnswerEvent::Kind::kReasoning) {
    show_reasoning(event.text, out);
  } else if (event.kind == dialog::AnswerEvent::Kind::kContent) {
    if (in_reasoning_) end_reasoning(true, out);
    show_content(event.text, out);
  }
}

void AnswerView::show_reasoning(std::string_view piece, std::string& out) {
  reasoning_ += piece;
  if (!look_.terminal) return;
  if (!in_reasoning_) {
    // A model may reason again behind its first words.
    colours_.finish(out);
    if (!content_.empty()) out += "\n\n";
    out += look_.colours ? kDim : kReasoningLine;
  }
  in_reasoning_ = true;
  out += text::visible_text(piece);
}

void AnswerView::end_reasoning(bool content_follows, std::string& out) {
  in_reasoning_ = false;
  if (look_.colours) out += kPlain;
  if (!content_follows) return;
  out += "\n\n";
  if (!look_.colours) out += kAnswerLine;
}

void AnswerView::show_content(std::string_view piece, std::string& out) {
  content_ += piece;
  if (!look_.terminal) {
    out += piece;
  } else if (look_.colours) {
    colours_.push(text::visible_text(piece), out);
  } else {
    out += text::visible_text(piece);
  }
}

}  // namespace dovetail::cli
