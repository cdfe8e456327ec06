#include "pipeline/sample/json_extract.h"

#include <optional>

#include "load/quote.h"
#include "pipeline/sample/code_fence.h"
#include "pipeline/sample/lenient_json.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

// Tries values at several places of a text; remembers the first thing that was wrong.
class Search {
 public:
  Search(const JsonExtractOptions& options, std::size_t text_size)
      : options_(options), budget_(16 * text_size + 4096) {}

  // A value that starts at `at`. `alone`: nothing but white space may follow.
  std::optional<ExtractedJson> value_at(std::string_view text, std::size_t at, bool alone) {
    LenientJson reader(text, at);
    auto value = reader.read();
    if (value && alone) {
      reader.skip_space();
      if (reader.position() < text.size()) {
        note("text behind the value", reader.position());
        value.reset();
      }
    }
    end_ = reader.position();
    const std::size_t cost = reader.position() - at + 1;
    budget_ = cost < budget_ ? budget_ - cost : 0;
    if (!value) {
      note(reader.error(), reader.position());
      return std::nullopt;
    }
    if (!wanted(*value)) {
      note(options_.wanted == JsonWanted::kObject ? "no object" : "no array", at);
      return std::nullopt;
    }
    if (!options_.repair && !reader.repairs().empty()) {
      note(reader.repairs().front(), at);
      return std::nullopt;
    }
    return ExtractedJson{*std::move(value), reader.repairs()};
  }

  // The first object or array anywhere in the text that is JSON as it stands, else the first one.
  std::optional<ExtractedJson> first_in(std::string_view text) {
    const std::string_view openings = options_.wanted == JsonWanted::kObject  ? "{"
                                      : options_.wanted == JsonWanted::kArray ? "["
                                                                              : "{[";
    std::optional<ExtractedJson> mended;
    for (std::size_t at = text.find_first_of(openings); at != std::string_view::npos && budget_ > 0;
         at = text.find_first_of(openings, at)) {
      auto found = value_at(text, at, false);
      if (found && found->repairs.empty()) return found;
      // What is within a value that can be mended is a part of it.
      at = found ? end_ : at + 1;
      if (found && !mended) mended = std::move(found);
    }
    return mended;
  }

  const std::string& problem() const { return problem_; }
  std::size_t problem_at() const { return problem_at_; }

 private:
  bool wanted(const nlohmann::ordered_json& value) const {
    return options_.wanted == JsonWanted::kAny ||
           (options_.wanted == JsonWanted::kObject ? value.is_object() : value.is_array());
  }
  void note(const std::string& problem, std::size_t at) {
    if (!problem_.empty() || problem.empty()) return;
    problem_ = problem;
    problem_at_ = at;
  }

  const JsonExtractOptions& options_;
  std::size_t budget_;  // bytes that may still be read: fresh starts cost time
  std::string problem_;
  std::size_t problem_at_ = 0;
  std::size_t end_ = 0;  // of the value that was read last
};

}  // namespace

Result<ExtractedJson> extract_json(std::string_view answer, const JsonExtractOptions& options) {
  std::string mended;
  const bool ill_formed = !text::is_valid_utf8(answer);
  if (ill_formed) {
    if (!options.repair) return fail(ErrorKind::kInvalid, "answer: no UTF-8; valid: JSON in UTF-8");
    mended = text::repair_utf8(answer);
    answer = mended;
  }
  const auto finish = [&](ExtractedJson found) {
    if (ill_formed) found.repairs.emplace_back("ill-formed UTF-8");
    return found;
  };

  Search search(options, answer.size());
  const auto start = answer.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) {
    return fail(ErrorKind::kInvalid, "answer: empty; valid: a JSON value");
  }
  // A value that the answer starts with comes first, since its strings may hold fences and
  // brackets.
  const char first = answer[start];
  if (first == '{' || first == '[') {
    if (auto found = search.value_at(answer, start, false)) return finish(*std::move(found));
  }
  // So does one that is the whole answer as it stands: a string may hold brackets, too.
  const bool may_be_scalar = options.wanted == JsonWanted::kAny && first != '{' && first != '[';
  if (may_be_scalar) {
    auto found = search.value_at(answer, start, true);
    if (found && found->repairs.empty()) return finish(*std::move(found));
  }
  for (const CodeBlock& block : find_code_blocks(answer)) {
    if (!block.language.empty() && canonical_language(block.language) != "json") continue;
    const auto inner = block.code.find_first_not_of(" \t\r\n");
    if (inner == std::string::npos) continue;
    if (auto found = search.value_at(block.code, inner, true)) return finish(*std::move(found));
    if (auto found = search.first_in(block.code)) return finish(*std::move(found));
  }
  if (auto found = search.first_in(answer)) return finish(*std::move(found));
  if (may_be_scalar) {
    if (auto found = search.value_at(answer, start, true)) return finish(*std::move(found));
  }
  return fail(ErrorKind::kInvalid, "answer {}: {} at byte {}; valid: {}", load::quote(answer),
              search.problem().empty() ? "no JSON" : search.problem(), search.problem_at(),
              options.wanted == JsonWanted::kObject  ? "a JSON object"
              : options.wanted == JsonWanted::kArray ? "a JSON array"
                                                     : "a JSON value");
}

}  // namespace dovetail::pipeline
