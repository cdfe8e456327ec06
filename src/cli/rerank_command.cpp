#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/input_record.h"
#include "cli/output.h"
#include "cli/pooled_run.h"
#include "text/tokenizer.h"

namespace dovetail::cli {
namespace {

constexpr const char* kRerankName = "rerank";

struct RerankArguments {
  std::string model, query, output;
  std::size_t top = 0;  // 0: all
  EngineOptions engine;
  bool verbose = false;
};

struct RankedDocument {
  std::string text;
  float score = 0.0F;
};

// The documents, the best ones first, the earlier one among equals.
Status write_ranking(const RerankArguments& arguments, const std::vector<RankedDocument>& documents,
                     OutputFile& output) {
  std::vector<std::size_t> order(documents.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return documents[a].score > documents[b].score;
  });
  if (arguments.top != 0) order.resize(std::min(order.size(), arguments.top));
  for (const std::size_t index : order) {
    const Json line = {{"index", index},
                       {"relevance_score", documents[index].score},
                       {"document", documents[index].text}};
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (const Status written = output.write(text + "\n"); !written) return written;
  }
  return {};
}

Result<int> rerank(const RerankArguments& arguments) {
  if (arguments.model.empty()) return usage_error(kRerankName, kModelMissing);
  if (arguments.query.empty())
    return usage_error(kRerankName, "--query is missing or empty, expected a text");
  Result<OutputFile> output = OutputFile::open(arguments.output);
  if (!output) return fail(output.error());
  auto engine = start_engine(arguments.model, arguments.engine, arguments.verbose);
  if (!engine) return fail(engine.error());
  std::vector<RankedDocument> documents;
  PooledRun run(**engine, "document", [&](std::size_t index, const OutputEvent& event) -> Status {
    documents[index].score = event.score;
    return {};
  });
  for (std::string line; std::getline(std::cin, line);) {
    auto pair = (*engine)->tokenizer().encode_pair(arguments.query, line);
    if (!pair) return fail(pair.error());
    documents.push_back({std::move(line)});
    Request request;
    request.rank = true;
    request.prompt = std::move(pair->ids);
    request.second = static_cast<std::uint32_t>(pair->second);
    if (const Status ok = run.add(std::move(request)); !ok) return fail(ok.error());
  }
  if (const Status ok = run.finish(); !ok) return fail(ok.error());
  if (const Status ok = write_ranking(arguments, documents, *output); !ok) return fail(ok.error());
  if (const Status closed = output->close(); !closed) return fail(closed.error());
  return kExitOk;
}

}  // namespace

Command rerank_command() {
  Command command;
  command.name = kRerankName;
  command.summary = "rank documents by how well they answer a query";
  command.options = std::make_unique<CLI::App>(
      "Scores each line of the standard input, a document, beside a query, and prints a JSON "
      "object\n"
      "a line, the best document first: its place in the input, from 0, its score, and its text.\n"
      "The score is what the model's makers say: a number from 0 to 1 where they say nothing.\n",
      "dovetail rerank");
  const auto arguments = std::make_shared<RerankArguments>();
  CLI::App& app = *command.options;
  add_model(app, arguments->model);
  app.add_option("-q,--query", arguments->query, "The query")->type_name("TEXT");
  app.add_option("-n,--top-n", arguments->top, "How many of the best documents to print (0: all)")
      ->type_name("N");
  app.add_option("-o,--output", arguments->output, "A file for the scores")->type_name("FILE");
  app.add_flag("-v,--verbose", arguments->verbose, "Say which options are in use, and why");
  add_engine_options(app, arguments->engine);
  command.action = [arguments] { return rerank(*arguments); };
  return command;
}

}  // namespace dovetail::cli
