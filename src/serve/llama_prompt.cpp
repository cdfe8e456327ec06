// What concerns several fields of /completion and /infill at once, and the prompt of the latter.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"
#include "serve/llama.h"

namespace dovetail::serve {
namespace {

using Tokens = std::vector<TokenId>;

// The first `most` tokens, or the last.
void keep_begin(Tokens& tokens, std::size_t most) {
  if (tokens.size() > most) tokens.resize(most);
}
void keep_end(Tokens& tokens, std::size_t most) {
  if (tokens.size() > most)
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(most));
}

// Other files, each behind its name; where the model knows none, as text.
Tokens tokens_of_files(const Draft& draft) {
  const Backend& backend = draft.context.backend;
  Tokens ids;
  const auto add = [&](const std::string& text) {
    const Tokens part = backend.encode(text, false, false);
    ids.insert(ids.end(), part.begin(), part.end());
  };
  if (draft.llama.files.empty()) return ids;
  const bool marked = backend.file_token.has_value();
  if (marked && backend.repository_token) {
    ids.push_back(*backend.repository_token);
    add("repository\n");
  }
  for (const LlamaDraft::File& file : draft.llama.files) {
    if (marked) ids.push_back(*backend.file_token);
    const std::string name = file.name.empty() ? std::string("file") : file.name;
    add(marked ? name + "\n" : "\n\n" + name + ":\n");
    add(file.text);
  }
  // The one to be filled in, whose name is not given.
  if (marked) ids.push_back(*backend.file_token);
  add(marked ? "current\n" : "\n\n");
  return ids;
}

// So much of the context as the prompt may take: it leaves room for what is asked for, at most
// half, and a quarter without a limit.
std::size_t prompt_room(const Draft& draft) {
  const std::size_t context = draft.context.backend.model.max_context;
  if (draft.request.no_output) return context - 1;
  const auto asked = static_cast<std::size_t>(draft.max_tokens.value_or(0));
  const std::size_t answer = asked == 0 ? context / 4 : std::min(asked, context / 2);
  return context - std::max<std::size_t>(answer, 1);
}

// The prompt of /infill. What does not fit goes: first of the other files, the first tokens of them
// first, then what is farthest from the gap, of the side that is longer than a quarter, or than
// three, of what is left. What went is said.
Problem build_infill(Draft& draft) {
  const Backend& backend = draft.context.backend;
  LlamaDraft& llama = draft.llama;
  if (!llama.before) return problem(bad_field("input_prefix", "is missing"));
  if (!llama.after) return problem(bad_field("input_suffix", "is missing"));
  if (!backend.fill_in_middle) {
    return problem(bad_field("input_suffix",
                             "the model has no tokens for filling in the middle of a text; "
                             "expected a model that does, such as Qwen2.5-Coder"));
  }
  Tokens& before = *llama.before;
  Tokens& after = *llama.after;
  Tokens prompt = backend.begin_ids();
  const std::size_t fixed =
      prompt.size() + llama.middle.size() + backend.fill_in_middle(Tokens(), Tokens()).size();
  const std::size_t room = prompt_room(draft);
  std::size_t spare = room > fixed ? room - fixed : 0;
  if (before.size() + after.size() > spare) {
    const std::size_t all = before.size() + after.size();
    const std::size_t for_after = std::max(spare / 4, spare - std::min(spare, before.size()));
    keep_begin(after, for_after);
    keep_end(before, spare - after.size());
    draft.unknown.ignore(fmt::format(
        "input_prefix, input_suffix ({} tokens of {} left out: longer than the context)",
        all - before.size() - after.size(), all));
  }
  spare -= before.size() + after.size();
  Tokens files = tokens_of_files(draft);
  if (files.size() > spare) {
    draft.unknown.ignore(
        fmt::format("input_extra ({} tokens of {} left out: longer than the "
                    "context)",
                    files.size() - spare, files.size()));
    keep_end(files, spare);
  }
  prompt.insert(prompt.end(), files.begin(), files.end());
  before.insert(before.end(), llama.middle.begin(), llama.middle.end());
  const Tokens around = backend.fill_in_middle(before, after);
  prompt.insert(prompt.end(), around.begin(), around.end());
  draft.prompts.emplace_back(std::move(prompt));
  return std::nullopt;
}

}  // namespace

Problem settle_llama(Endpoint endpoint, Draft& draft) {
  LlamaDraft& llama = draft.llama;
  Request& request = draft.request;
  for (const auto& limit : llama.limits) {
    if (!limit) continue;
    request.no_output = *limit == 0;
    draft.max_tokens = std::max(*limit, 0);
    break;
  }
  for (const auto& count : llama.probabilities) {
    if (!count) continue;
    request.logprobs = *count == 0 ? -1 : *count;
    break;
  }
  if (llama.post_sampling && request.logprobs >= 0) {
    return problem(bad_field("post_sampling_probs",
                             "true is not supported; expected false: probabilities are those of "
                             "the model, before any sampler"));
  }
  if (llama.grammar && llama.schema) draft.unknown.ignore(llama.schema->field);
  if (auto found = store_format(llama.grammar ? llama.grammar : llama.schema, draft)) return found;
  const auto& samplers = draft.samplers;
  if (llama.adaptive && samplers &&
      std::find(samplers->begin(), samplers->end(), "adaptive_p") != samplers->end()) {
    return problem(bad_field("adaptive_target",
                             "is not supported; expected less than 0, which is off, or samplers "
                             "without \"adaptive_p\""));
  }
  if (llama.only_likeliest) request.sampling.top_k = 1;
  return endpoint == Endpoint::kLlamaInfill ? build_infill(draft) : std::nullopt;
}

void describe_llama(Draft& draft, Generation& generation) {
  const Backend& backend = draft.context.backend;
  LlamaForm& form = draft.llama.form;
  form.context = backend.model.max_context;
  for (const Request& request : generation.requests)
    form.prompts.push_back(backend.decode(request.prompt, false));
  std::int32_t limit = -1;
  if (draft.request.no_output) limit = 0;
  if (draft.max_tokens.value_or(0) > 0) limit = *draft.max_tokens;
  form.settings = llama_settings(draft.request, limit);
  form.settings["stream"] = draft.stream;
  form.settings["timings_per_token"] = form.timings;
  form.settings["n_indent"] = form.least_indent;
  form.settings["t_max_predict_ms"] = form.predict_limit.count();
  const auto& grammar = draft.llama.grammar;
  form.settings["grammar"] = grammar ? grammar->text : std::string();
  generation.llama = std::move(form);
}

}  // namespace dovetail::serve
