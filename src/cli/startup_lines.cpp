#include "cli/startup_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cli/model_report.h"
#include "cli/values.h"
#include "text/prompt_encoder.h"

namespace dovetail::cli {
namespace {

// The types of the weights, those with the most bytes first.
std::vector<std::string> weight_types(const ModelReport& report) {
  std::vector<std::pair<std::uint64_t, std::string>> types;
  for (const auto& [name, share] : report.types) types.emplace_back(share.bytes, name);
  std::stable_sort(types.begin(), types.end(),
                   [](const auto& left, const auto& right) { return left.first > right.first; });
  std::vector<std::string> names;
  for (auto& [bytes, name] : types) names.push_back(std::move(name));
  return names;
}

std::string parameter_count(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1000000000) return fmt::format("{:.2f} billion", value / 1e9);
  if (count >= 1000000) return fmt::format("{:.2f} million", value / 1e6);
  return fmt::format("{}", count);
}

std::string size_text(const load::ModelSource& source, const ModelReport& report) {
  return fmt::format("{}, {} parameters, {}", source.config.family,
                     parameter_count(report.parameters), show_bytes(source.file_bytes));
}

}  // namespace

Result<std::string> model_line(const load::ModelSource& source, const EngineOptions& options) {
  const Result<ModelReport> report = report_model(source, options);
  if (!report) return fail(report.error());
  return fmt::format("{}: {} of {}, context {}", source.name, size_text(source, *report),
                     weight_types(*report).front(), report->memory.options.max_context);
}

Result<std::vector<std::string>> model_lines(const Engine& engine,
                                             const std::string& chat_template) {
  const load::ModelSource& source = engine.source();
  const Result<ModelReport> report = report_model(source, engine.options());
  if (!report) return fail(report.error());
  const Result<text::PromptEncoder> encoder =
      text::PromptEncoder::create(source, engine.tokenizer(), chat_template);
  if (!encoder) return fail(encoder.error());
  const Status chats = encoder->can_chat();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("model {}: {}", source.name, size_text(source, *report)));
  lines.push_back(
      fmt::format("weights {}: {}", fmt::join(weight_types(*report), ", "), source.format));
  lines.push_back(
      fmt::format("tokenizer {}: {} tokens", report->tokenizer, source.config.vocab_size));
  lines.push_back(chats ? "chat-template on: " + encoder->template_origin()
                        : "chat-template none: " + chats.error().message);
  return lines;
}

}  // namespace dovetail::cli
