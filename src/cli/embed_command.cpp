#include <fmt/core.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/input_record.h"
#include "cli/output.h"
#include "cli/pooled_run.h"
#include "cli/values.h"
#include "text/tokenizer.h"

namespace dovetail::cli {
namespace {

constexpr const char* kEmbedName = "embed";

struct EmbedArguments {
  std::string model, text, output;
  EngineOptions engine;
  bool verbose = false;
};

Result<int> embed(const EmbedArguments& arguments, bool has_text) {
  if (arguments.model.empty()) return usage_error(kEmbedName, kModelMissing);
  Result<OutputFile> output = OutputFile::open(arguments.output);
  if (!output) return fail(output.error());
  auto engine = start_engine(arguments.model, arguments.engine, arguments.verbose);
  if (!engine) return fail(engine.error());
  const auto take = [&](std::size_t, const OutputEvent& event) {
    const Json line = {{"tokens", event.usage.prompt_tokens}, {"embedding", event.embedding}};
    return output->write(line.dump() + "\n");
  };
  std::size_t failed = 0;
  std::string first_failed;
  const auto take_error = [&](std::size_t index, const Error& error) {
    if (++failed == 1) first_failed = fmt::format("line {}: {}", index + 1, error.message);
    const Json line = {{"error", error.message}};
    return output->write(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  };
  // A model that does not embed would refuse every line: its first one says so.
  const bool embeds = (*engine)->source().config.score == load::Score::kNone;
  PooledRun run(**engine, "text", take,
                has_text || !embeds ? PooledRun::TakeError() : PooledRun::TakeError(take_error));
  const auto add = [&](const std::string& text) {
    Request request;
    request.embed = true;
    request.prompt = (*engine)->tokenizer().encode(text, {.parse_special = false});
    return run.add(std::move(request));
  };
  std::size_t lines = 0;
  if (has_text) {
    if (const Status ok = add(arguments.text); !ok) return fail(ok.error());
  } else {
    for (std::string line; std::getline(std::cin, line); ++lines) {
      if (const Status ok = add(line); !ok) return fail(ok.error());
    }
  }
  if (const Status ok = run.finish(); !ok) return fail(ok.error());
  if (const Status closed = output->close(); !closed) return fail(closed.error());
  if (failed > 0) {
    return fail(ErrorKind::kInvalid, "{} of {} lines have no embedding, the first is {}", failed,
                lines, first_failed);
  }
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
      "say (else the last one is taken) and scaled to the length 1. A line that cannot be\n"
      "embedded (none of its tokens, too many of them) has an error in place of its embedding,\n"
      "and the exit code is 1.\n",
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
