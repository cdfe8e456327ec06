#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/generation.h"
#include "cli/input_record.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "cli/values.h"
#include "text/prompt_encoder.h"

namespace dovetail::cli {
namespace {

constexpr const char* kChatName = "chat";
constexpr float kChatTemperature = 1.0F;
constexpr const char* kHelp =
    "/system TEXT  start over with this system message\n"
    "/reset        start over\n"
    "/quit         end (also Ctrl-D); Ctrl-C stops an answer\n";

struct ChatOptions {
  std::string model, system, chat_template;
  EngineOptions engine;
  SamplingOptions sampling;
};

struct InputLine {
  std::optional<std::string> text;  // nothing: the end
  bool interrupted = false;
};

InputLine read_line() {
  char* buffer = nullptr;
  std::size_t capacity = 0;
  errno = 0;
  const ssize_t length = getline(&buffer, &capacity, stdin);
  InputLine line;
  if (length >= 0) {
    line.text = std::string(buffer, static_cast<std::size_t>(length));
    line.text->erase(line.text->find_last_not_of("\r\n") + 1);
  } else if (InterruptGuard::signal() != 0) {
    std::clearerr(stdin);
    line.interrupted = true;
  }
  std::free(buffer);
  return line;
}

class Chat {
 public:
  Chat(const ChatOptions& options, Engine& engine, const text::PromptEncoder& encoder,
       OutputFile output)
      : engine_(engine),
        encoder_(encoder),
        output_(std::move(output)),
        defaults_(default_request(options.sampling, load::conversation_defaults(engine.source()),
                                  kChatTemperature)),
        interactive_(isatty(STDIN_FILENO) == 1) {
    start_over(options.system);
  }

  Result<int> talk() {
    const InterruptGuard guard;
    bool warned = false;
    if (interactive_) {
      fmt::print(stderr, "{}: type a message, or /help\n{}\n", engine_.source().name,
                 load::explain_conversation_defaults(engine_.source()));
    }
    for (;;) {
      if (interactive_) fmt::print(stderr, "> ");
      const InputLine line = read_line();
      if (line.interrupted) {
        const int signal = InterruptGuard::signal();
        if (warned || !interactive_ || signal == SIGTERM) return 128 + signal;
        fmt::print(stderr, "\n/quit, Ctrl-D or Ctrl-C again to end\n");
        InterruptGuard::clear();
        warned = true;
        continue;
      }
      warned = false;
      if (!line.text) {
        if (interactive_) fmt::print(stderr, "\n");
        return kExitOk;
      }
      if (line.text->find_first_not_of(" \t") == std::string::npos) continue;
      if (line.text->front() == '/') {
        if (!obey(*line.text)) return kExitOk;
        continue;
      }
      if (const Status ok = answer(*line.text); !ok) {
        if (!interactive_ || ok.error().kind == ErrorKind::kIo) return fail(ok.error());
        fmt::print(stderr, "{}\n", ok.error().message);
      }
      if (InterruptGuard::signal() == SIGTERM) return 128 + SIGTERM;
      InterruptGuard::clear();  // SIGINT ends an answer, not the talk
    }
  }

 private:
  void start_over(const std::string& system) {
    system_ = system;
    messages_ = Json::array();
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
  }

  // False: the talk is over.
  bool obey(const std::string& line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space);
    if (word == "/quit" || word == "/exit") return false;
    if (word == "/reset") {
      start_over(system_);
    } else if (word == "/system") {
      start_over(space < line.size() ? line.substr(space + 1) : std::string());
    } else if (word == "/help") {
      fmt::print(stderr, "{}", kHelp);
    } else {
      fmt::print(
          stderr,
          "unknown command {}, expected /system TEXT, /reset, /help or /quit; a message that "
          "begins with / needs a space before it\n",
          word);
    }
    return true;
  }

  // One turn. A turn that fails leaves no trace in the history.
  Status answer(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    const Result<Answer> answer = generate();
    const bool failed = !answer || answer->finish == FinishReason::kError;
    if (failed) {
      messages_.erase(messages_.size() - 1);
      return fail(answer ? answer->error : answer.error());
    }
    messages_.push_back({{"role", "assistant"}, {"content", answer->text}});
    if (answer->finish == FinishReason::kLength)
      fmt::print(stderr, "(the answer was cut: --max-tokens or the context is used up)\n");
    return {};
  }

  Result<Answer> generate() {
    Request request = defaults_;
    Result<std::vector<TokenId>> prompt = encoder_.chat(messages_);
    if (!prompt) return fail(prompt.error());
    request.prompt = *std::move(prompt);
    Status written;
    Result<Answer> answer = stream_answer(
        engine_generator(engine_), std::move(request),
        [&](std::string_view piece) {
          written = output_.write(piece);
          return written.has_value();
        },
        [] { return InterruptGuard::signal() != 0; });
    if (answer && written) written = output_.write("\n");
    if (!written) return fail(written.error());
    return answer;
  }

  Engine& engine_;
  const text::PromptEncoder& encoder_;
  OutputFile output_;
  Request defaults_;
  bool interactive_;
  std::string system_;
  Json messages_;
};

Result<int> chat(const ChatOptions& options) {
  if (options.model.empty()) return usage_error(kChatName, kModelMissing);
  const Result<std::string> chat_template = read_template_file(options.chat_template);
  if (!chat_template) return fail(chat_template.error());
  const Result<std::unique_ptr<Engine>> engine = start_engine(options.model, options.engine, false);
  if (!engine) return fail(engine.error());
  const Result<text::PromptEncoder> encoder =
      text::PromptEncoder::create((*engine)->source(), (*engine)->tokenizer(), *chat_template);
  if (!encoder) return fail(encoder.error());
  if (const Status ok = encoder->can_chat(); !ok) return fail(ok.error());
  Result<OutputFile> output = OutputFile::open("");
  return Chat(options, **engine, *encoder, *std::move(output)).talk();
}

}  // namespace

Command chat_command() {
  Command command;
  command.name = kChatName;
  command.summary = "talk with a model";
  command.options = std::make_unique<CLI::App>(
      "Reads messages line by line and prints the model's answers as they come. The history is\n"
      "kept. Commands: /system TEXT, /reset, /help, /quit. Ctrl-C stops an answer.\n"
      "A GGUF file that recommends no sampling is drawn from with temperature 0.8, top-k 40,\n"
      "top-p 0.95 and min-p 0.05.\n",
      "dovetail chat");
  const auto options = std::make_shared<ChatOptions>();
  options->engine.max_num_seqs = 1;
  CLI::App& app = *command.options;
  add_model(app, options->model);
  add_text(app, "--system", options->system, "A system message at the beginning")->group("Chat");
  add_text(app, "--chat-template", options->chat_template,
           "A Jinja template in the place of the model's", kFile)
      ->group("Chat");
  add_sampling_options(app, options->sampling, "0.8 for a GGUF file, else 1");
  add_engine_options(app, options->engine);
  command.action = [options] { return chat(*options); };
  return command;
}

}  // namespace dovetail::cli
