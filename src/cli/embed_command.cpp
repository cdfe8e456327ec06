#include <condition_variable>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/input_record.h"
#include "cli/output.h"
#include "text/tokenizer.h"

namespace dovetail::cli {
namespace {

constexpr const char* kEmbedName = "embed";

// Requests that are under way beyond those that a step takes.
constexpr std::size_t kAhead = 64;

struct EmbedArguments {
  std::string model, text, output;
  EngineOptions engine;
  bool verbose = false;
};

// Texts as requests, and their embeddings in the order of the texts.
class EmbedRun {
 public:
  EmbedRun(Engine& engine, OutputFile& output)
      : engine_(engine), output_(output), most_(engine.options().max_num_seqs + kAhead) {}

  // Waits where many are under way. The text's number, from 1, is in errors.
  Status add(const std::string& text) {
    ++number_;
    if (const Status ok = write_until(most_ - 1); !ok) return ok;
    auto entry = std::make_shared<Entry>();
    Request request;
    request.embed = true;
    request.prompt = engine_.tokenizer().encode(text, {.parse_special = false});
    const auto tokens = request.prompt.size();
    // The engine may outlive this run, whose state its events use.
    const Result<RequestId> sent =
        engine_.submit(std::move(request), [shared = shared_, entry](OutputEvent event) {
          const std::lock_guard lock(shared->mutex);
          entry->event = std::move(event);
          shared->arrived.notify_one();
        });
    if (!sent) return fail(sent.error().kind, "text {}: {}", number_, sent.error().message);
    entry->tokens = tokens;
    entry->number = number_;
    entries_.push_back(std::move(entry));
    return {};
  }

  Status finish() { return write_until(0); }

 private:
  struct Entry {
    std::optional<OutputEvent> event;
    std::size_t tokens = 0, number = 0;
  };

  struct Shared {
    std::mutex mutex;  // of the entries' events
    std::condition_variable arrived;
  };

  // Writes what has come, and waits until at most so many are under way.
  Status write_until(std::size_t most) {
    while (entries_.size() > most) {
      const std::shared_ptr<Entry> first = entries_.front();
      {
        std::unique_lock lock(shared_->mutex);
        shared_->arrived.wait(lock, [&] { return first->event.has_value(); });
      }
      entries_.pop_front();
      const OutputEvent& event = *first->event;
      if (event.finish != FinishReason::kStop) {
        return fail(event.error.kind, "text {}: {}", first->number,
                    event.error.message.empty() ? "cancelled" : event.error.message);
      }
      const Json line = {{"tokens", first->tokens}, {"embedding", event.embedding}};
      if (const Status written = output_.write(line.dump() + "\n"); !written) return written;
    }
    return {};
  }

  Engine& engine_;
  OutputFile& output_;
  std::size_t most_;
  std::size_t number_ = 0;
  std::deque<std::shared_ptr<Entry>> entries_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

Result<int> embed(const EmbedArguments& arguments, bool has_text) {
  if (arguments.model.empty()) return usage_error(kEmbedName, kModelMissing);
  Result<OutputFile> output = OutputFile::open(arguments.output);
  if (!output) return fail(output.error());
  auto engine = start_engine(arguments.model, arguments.engine, arguments.verbose);
  if (!engine) return fail(engine.error());
  EmbedRun run(**engine, *output);
  if (has_text) {
    if (const Status ok = run.add(arguments.text); !ok) return fail(ok.error());
  } else {
    for (std::string line; std::getline(std::cin, line);) {
      if (const Status ok = run.add(line); !ok) return fail(ok.error());
    }
  }
  if (const Status ok = run.finish(); !ok) return fail(ok.error());
  if (const Status closed = output->close(); !closed) return fail(closed.error());
  return kExitOk;
}

}  // namespace

Command embed_command() {
  Command command;
  command.name = kEmbedName;
  command.summary = "embed texts: vectors that are near each other where texts are alike";
  command.options = std::make_unique<CLI::App>(
      "Prints the embedding of TEXT, or of each line of the standard input without one: a JSON\n"
      "object a line, in the order of the texts. The model's hidden rows are pooled as its makers\n"
      "say (else the last one is taken) and scaled to the length 1.\n",
      "dovetail embed");
  const auto arguments = std::make_shared<EmbedArguments>();
  CLI::App& app = *command.options;
  add_model(app, arguments->model);
  CLI::Option* text = add_text(app, "-t,--text,TEXT", arguments->text, "The text");
  app.add_option("-o,--output", arguments->output, "A file for the embeddings")->type_name("FILE");
  app.add_flag("-v,--verbose", arguments->verbose, "Say which options are in use, and why");
  add_engine_options(app, arguments->engine);
  command.action = [arguments, text] { return embed(*arguments, text->count() > 0); };
  return command;
}

}  // namespace dovetail::cli
