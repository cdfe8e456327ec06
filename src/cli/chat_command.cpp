#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "cli/chat_commands.h"
#include "cli/chat_loop.h"
#include "cli/chat_session.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "cli/sampling_settings.h"
#include "cli/startup_lines.h"
#include "cli/values.h"
#include "dialog/model_format.h"
#include "text/prompt_encoder.h"

namespace dovetail::cli {
namespace {

constexpr const char* kChatName = "chat";

struct ChatOptions {
  std::string model, system, chat_template;
  EngineOptions engine;
  SamplingOptions sampling;
};

// As no-color.org has it: any value but an empty one.
bool wants_colours() {
  const char* off = std::getenv("NO_COLOR");
  return off == nullptr || *off == '\0';
}

Result<int> chat(const ChatOptions& options, const CLI::App& parsed) {
  if (options.model.empty()) return usage_error(kChatName, kModelMissing);
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::string> chat_template = read_template_file(options.chat_template);
  if (!chat_template) return fail(chat_template.error());
  Result<SamplingSettings> settings = SamplingSettings::create(parsed);
  if (!settings) return fail(settings.error());
  const Result<std::unique_ptr<Engine>> engine = start_engine(options.model, options.engine, false);
  if (!engine) return fail(engine.error());
  const load::ModelSource& source = (*engine)->source();
  const Result<text::PromptEncoder> encoder =
      text::PromptEncoder::create(source, (*engine)->tokenizer(), *chat_template);
  if (!encoder) return fail(encoder.error());
  if (const Status ok = encoder->can_chat(); !ok) return fail(ok.error());
  Result<OutputFile> output = OutputFile::open("");
  std::unique_ptr<LineEditor> editor = LineEditor::create(chat_completions());
  ChatLook look;
  look.interactive = isatty(STDIN_FILENO) == 1;
  look.terminal = isatty(STDOUT_FILENO) == 1;
  look.colours = editor != nullptr && wants_colours();
  const SamplingValues given = settings->options().values;
  // An engine that chose its context by itself chose the longest.
  const std::uint32_t longest = options.engine.max_context > 0 ? source.config.max_context : 0;
  ChatSession session(**engine, *encoder,
                      dialog::detect_format(encoder->template_text(), *encoder->chat_template(),
                                            (*engine)->tokenizer()),
                      *std::move(settings), options.system, look, *std::move(output), longest);
  if (look.interactive) {
    const Result<std::string> model = model_line(source, options.engine);
    if (!model) return fail(model.error());
    notice(*model);
    if (options.chat_template.empty() && !source.chat_template)
      notice("chat-template on: " + encoder->template_origin());
    notice(load::explain_conversation_defaults(source, given));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    notice(fmt::format("ready after {:.1f} s: type a message, or /help", passed.count()));
  }
  return talk(session, std::move(editor));
}

}  // namespace

Command chat_command() {
  Command command;
  command.name = kChatName;
  command.summary = "talk with a model";
  command.options = std::make_unique<CLI::App>(
      "Reads messages and prints the model's answers as they come. The history is kept. In a\n"
      "terminal lines are edited, with the arrow keys and a history across chats; /help lists\n"
      "what else can be typed: " +
          chat_command_list() +
          ".\n"
          "Ctrl-C stops an answer. NO_COLOR turns colours off.\n"
          "A GGUF file that recommends no sampling is drawn from with temperature 0.8, top-k 40,\n"
          "top-p 0.95 and min-p 0.05.\n",
      "dovetail chat");
  const auto options = std::make_shared<ChatOptions>();
  options->engine.max_num_seqs = 1;
  CLI::App& app = *command.options;
  add_model(app, options->model);
  add_text(app, "--system", options->system, "A system message at the beginning")->group("Chat");
  add_template_option(app, options->chat_template)->group("Chat");
  add_sampling_options(app, options->sampling, kConversationTemperature);
  add_engine_options(app, options->engine);
  command.action = [options, parsed = command.options.get()] { return chat(*options, *parsed); };
  return command;
}

}  // namespace dovetail::cli
