#include "pipeline/face/run_files.h"

#include <algorithm>
#include <variant>

namespace dovetail::pipeline {
namespace {

// Where nobody is paid for a cell. A commit takes a core from the model for a moment, and what a
// kill takes is made again in as short a time.
constexpr auto kSeldom = std::chrono::milliseconds(100);

}  // namespace

RunFiles files_of(const PipelineSpec& spec, const std::filesystem::path& folder,
                  const std::string& database, ResultsFormat format) {
  RunFiles files;
  files.folder = folder.empty() ? std::filesystem::path(spec.name) : folder;
  files.results = files.folder / (format == ResultsFormat::kCsv ? "results.csv" : "results.jsonl");
  files.dropped = files.folder / "dropped.jsonl";
  files.report = files.folder / "report.html";
  files.store = database.empty() ? (files.folder / "run.db").string() : database;
  return files;
}

StoreOptions store_options(const PipelineSpec& spec) {
  StoreOptions options;
  options.run_name = spec.name;
  const bool asks_endpoints = std::any_of(
      spec.models.begin(), spec.models.end(),
      [](const ModelSpec& model) { return std::holds_alternative<RemoteModel>(model.where); });
  if (!asks_endpoints) options.commit_every = kSeldom;
  return options;
}

Result<std::unique_ptr<Store>> look_at(const PipelineSpec& spec, const RunFiles& files) {
  return Store::open(files.store, OpenMode::kReadOnly, store_options(spec));
}

}  // namespace dovetail::pipeline
