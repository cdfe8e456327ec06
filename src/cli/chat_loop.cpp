#include "cli/chat_loop.h"

#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "cli/chat_commands.h"
#include "cli/chat_history.h"
#include "cli/command.h"
#include "cli/message_lines.h"
#include "cli/signals.h"

namespace dovetail::cli {
namespace {

constexpr std::string_view kPrompt = ">", kMorePrompt = ".";

class ChatLoop {
 public:
  ChatLoop(ChatSession& session, std::unique_ptr<LineEditor> editor)
      : session_(session), editor_(std::move(editor)) {
    if (editor_) open_history();
  }

  Result<int> run() {
    const bool interactive = session_.look().interactive;
    const InterruptGuard guard;
    bool warned = false;
    while (!session_.ended()) {
      TypedLine line = read();
      if (line.interrupted) {
        const int signal = InterruptGuard::signal();
        if (!interactive || signal == SIGTERM) return 128 + signal;
        InterruptGuard::clear();
        const bool cleared = line.cleared || lines_.pending();
        lines_.clear();
        if (cleared) continue;
        if (std::exchange(warned, true)) return 128 + signal;
        notice(
            fmt::format("{}Ctrl-D or /exit ends, and so does Ctrl-C again", editor_ ? "" : "\n"));
        continue;
      }
      warned = false;
      if (!line.text) {
        if (interactive && !editor_) notice("");
        break;
      }
      if (const Status ok = take(*std::move(line.text)); !ok) {
        if (!interactive || session_.output_failed()) return fail(ok.error());
        notice(ok.error().message);
      }
      if (InterruptGuard::signal() == SIGTERM) return 128 + SIGTERM;
      InterruptGuard::clear();  // SIGINT ends an answer, not the chat
    }
    return kExitOk;
  }

 private:
  TypedLine read() {
    const std::string_view prompt = lines_.pending() ? kMorePrompt : kPrompt;
    if (!editor_) {
      if (session_.look().interactive) fmt::print(stderr, "{} ", prompt);
      return read_plain_line();
    }
    if (!session_.look().colours) return editor_->read(fmt::format("{} ", prompt));
    // Escapes between marks go with the character behind them.
    return editor_->read(fmt::format("\1\x1b[1;32m\1{}\1\x1b[0m\1 ", prompt));
  }

  Status take(std::string line) {
    TypedMessage message{std::move(line)};
    if (editor_) {
      std::optional<TypedMessage> whole = lines_.add(std::move(message.text));
      if (!whole) return {};
      message = *std::move(whole);
      remember(message);
    }
    std::string& text = message.text;
    if (text.find_first_not_of(" \t\n") == std::string::npos) return {};
    if (!message.quoted && text.front() == '/') {
      if (!text.starts_with("//")) return run_chat_command(session_, text);
      text.erase(0, 1);
    }
    return session_.ask(text);
  }

  void open_history() {
    const std::string path = ChatHistory::default_path();
    if (path.empty()) return;
    Result<ChatHistory> history = ChatHistory::open(path);
    if (!history) return session_.remark("no history: " + history.error().message);
    for (const std::string& entry : history->entries()) editor_->add_history(entry);
    history_ = *std::move(history);
  }

  void remember(const TypedMessage& message) {
    const std::string entry = message.quoted ? "\"\"\"" + message.text + "\"\"\"" : message.text;
    if (entry.find_first_not_of(" \t\n") == std::string::npos) return;
    editor_->add_history(entry);
    if (!history_) return;
    if (const Status ok = history_->add(entry); !ok) {
      session_.remark("no history from here on: " + ok.error().message);
      history_.reset();
    }
  }

  ChatSession& session_;
  std::unique_ptr<LineEditor> editor_;
  std::optional<ChatHistory> history_;
  MessageLines lines_;
};

}  // namespace

Result<int> talk(ChatSession& session, std::unique_ptr<LineEditor> editor) {
  return ChatLoop(session, std::move(editor)).run();
}

}  // namespace dovetail::cli
