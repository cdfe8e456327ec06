#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/input_record.h"
#include "cli/output.h"
#include "cli/values.h"
#include "families/open_model.h"
#include "load/model_source.h"
#include "study/perplexity.h"
#include "text/tokenizer.h"

namespace dovetail::cli {
namespace {

constexpr const char* kPerplexityName = "perplexity";

struct PerplexityArguments {
  std::string model, text, json;
  study::PerplexityOptions measure;
};

std::string perplexity_line(const study::Perplexity& found, std::uint32_t context) {
  return fmt::format("perplexity {:.4f} +- {:.4f}: {} tokens scored, {} chunks of {}\n",
                     found.value, found.standard_error, found.scored, found.chunks, context);
}

Result<study::Perplexity> measure_text(const PerplexityArguments& arguments) {
  Result<std::string> text = read_text_file(arguments.text);
  if (!text) return fail(text.error());
  const auto source = families::open_model(arguments.model);
  if (!source) return fail(source.error());
  const Result<text::Tokenizer> tokenizer = text::Tokenizer::create(**source);
  if (!tokenizer) return fail(tokenizer.error());
  study::PerplexityOptions options = arguments.measure;
  set_warnings(options.engine);
  if (tokenizer->adds_bos() && tokenizer->bos()) options.first_token = *tokenizer->bos();
  const std::vector<TokenId> tokens = tokenizer->encode(*text, {.parse_special = false});
  return study::measure_perplexity(*source, options, tokens, [&](const study::Perplexity& so_far) {
    notice(fmt::format("dovetail perplexity: chunk {}: {:.4f}", so_far.chunks, so_far.value));
  });
}

Result<int> perplexity(const PerplexityArguments& arguments) {
  if (arguments.model.empty()) return usage_error(kPerplexityName, kModelMissing);
  if (arguments.text.empty())
    return usage_error(kPerplexityName, "--file is missing, expected a text file");
  // Opened before the work, so that a path that cannot be written is an error at once.
  Result<OutputFile> output = OutputFile::open(arguments.json);
  if (!output) return fail(output.error());
  const Result<study::Perplexity> found = measure_text(arguments);
  if (!found) return fail(found.error());
  const std::uint32_t context = arguments.measure.context;
  const Json object = {{"perplexity", found->value}, {"standard_error", found->standard_error},
                       {"scored", found->scored},    {"chunks", found->chunks},
                       {"context", context},         {"model", arguments.model}};
  const bool as_json = !arguments.json.empty();
  const Status written =
      output->write(as_json ? object.dump(2) + "\n" : perplexity_line(*found, context));
  if (!written) return fail(written.error());
  if (const Status closed = output->close(); !closed) return fail(closed.error());
  return kExitOk;
}

}  // namespace

Command perplexity_command() {
  Command command;
  command.name = kPerplexityName;
  command.summary = "measure how well a model expects a text";
  command.options = std::make_unique<CLI::App>(
      "Prints the perplexity of a text, as llama.cpp's llama-perplexity computes it: in chunks of\n"
      "--context tokens, each read from its beginning, whose second halves are scored. The lower,\n"
      "the better; of one model in several weight types it tells what each type costs.\n",
      "dovetail perplexity");
  const auto arguments = std::make_shared<PerplexityArguments>();
  CLI::App& app = *command.options;
  add_model(app, arguments->model);
  const std::string group = "Text";
  add_text(app, "-f,--file", arguments->text, "The text", kFile)->group(group);
  add_integer(app, "--context", arguments->measure.context, 4, kMostUint32,
              "Tokens of a chunk (512)")
      ->group(group);
  add_integer(app, "--chunks", arguments->measure.chunks, 0, kMostUint32,
              "Chunks at most (0: all of the text)")
      ->group(group);
  add_text(app, "--json", arguments->json, "Write a JSON object instead; -: to standard output",
           kFile)
      ->group(group);
  add_engine_options(app, arguments->measure.engine, {engine::OptionGroup::kLanes});
  add_engine_option(app, arguments->measure.engine, engine::option_row("cache_type"));
  command.action = [arguments] { return perplexity(*arguments); };
  return command;
}

}  // namespace dovetail::cli
