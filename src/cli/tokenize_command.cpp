#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/input_record.h"
#include "cli/output.h"
#include "cli/values.h"
#include "families/open_model.h"
#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail::cli {
namespace {

constexpr const char* kTokenizeName = "tokenize";

struct TokenizeOptions {
  std::string model, text;
  std::optional<std::vector<std::int32_t>> ids;
  bool no_special = false, no_bos = false, json = false;
};

Status check_ids(const std::vector<TokenId>& ids, std::size_t vocab_size) {
  for (const TokenId id : ids) {
    if (static_cast<std::size_t>(id) >= vocab_size) {
      return fail(ErrorKind::kInvalid, "--ids: {} is no token id of the model, expected 0 to {}",
                  id, vocab_size - 1);
    }
  }
  return {};
}

std::string decoded(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
  const std::string text = tokenizer.decode(*options.ids, options.no_special);
  if (!options.json) return text + "\n";
  return Json{{"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string encoded(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
  const std::vector<TokenId> ids = tokenizer.encode(
      options.text, {.add_special = !options.no_bos, .parse_special = !options.no_special});
  Json pieces = Json::array();
  for (const TokenId id : ids) pieces.push_back(tokenizer.token_text(id));
  if (options.json) {
    const Json line = {{"ids", ids}, {"pieces", pieces}};
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string lines;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    lines += fmt::format("{:>7}  {}\n", ids[i],
                         pieces[i].dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return lines + fmt::format("{} tokens: {}\n", ids.size(), fmt::join(ids, ","));
}

Result<int> tokenize(TokenizeOptions& options, bool has_text) {
  if (options.model.empty()) return usage_error(kTokenizeName, kModelMissing);
  if (has_text && options.ids)
    return usage_error(kTokenizeName, "TEXT and --ids were both given, expected one of them");
  const Result<std::shared_ptr<const load::ModelSource>> source =
      families::open_model(options.model);
  if (!source) return fail(source.error());
  const Result<text::Tokenizer> tokenizer = text::Tokenizer::create(**source);
  if (!tokenizer) return fail(tokenizer.error());
  if (options.ids) {
    if (const Status ok = check_ids(*options.ids, tokenizer->vocab_size()); !ok)
      return fail(ok.error());
  } else if (!has_text) {
    Result<std::string> text = read_text_file("/dev/stdin");
    if (!text) return fail(text.error());
    options.text = *std::move(text);
  }
  Result<OutputFile> output = OutputFile::open("");
  const Status ok =
      output->show(options.ids ? decoded(options, *tokenizer) : encoded(options, *tokenizer));
  if (!ok) return fail(ok.error());
  return kExitOk;
}

}  // namespace

Command tokenize_command() {
  Command command;
  command.name = kTokenizeName;
  command.summary = "show a text's tokens, or the text of token ids";
  command.options = std::make_unique<CLI::App>(
      "Prints the ids and pieces of TEXT, or of the standard input without one, as the model's\n"
      "tokenizer makes them; with --ids the text of token ids.\n",
      "dovetail tokenize");
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App& app = *command.options;
  add_model(app, options->model);
  CLI::Option* text = add_text(app, "-t,--text,TEXT", options->text, "The text");
  const std::string group = "Tokens";
  add_value(
      app, "--ids", "1,2,3",
      [options = options.get()](const std::string& list) -> Status {
        Result<std::vector<std::int32_t>> ids = parse_ids(list);
        if (!ids) return fail(ids.error());
        options->ids = *std::move(ids);
        return {};
      },
      "Token ids whose text to print")
      ->group(group);
  app.add_flag("--no-special", options->no_special,
               "Control tokens spelled in TEXT are plain text; with --ids they are left out")
      ->group(group);
  app.add_flag("--no-bos", options->no_bos, "No BOS or EOS beyond what TEXT spells")->group(group);
  app.add_flag("--json", options->json, "One JSON object")->group(group);
  command.action = [options, text] { return tokenize(*options, text->count() > 0); };
  return command;
}

}  // namespace dovetail::cli
