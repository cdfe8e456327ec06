// What concerns several fields of /completion and /infill at once, and the prompt of the latter.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sampling_table.h"
#include "serve/field_table.h"
#include "serve/llama.h"

namespace dovetail::serve {
namespace {

using Tokens = std::vector<TokenId>;

// A sampler of llama.cpp's that is one here, too, in the order in which they act here.
struct Sampler {
  std::string_view name;
  std::array<const SamplingRow*, 3> rows;
};
constexpr Sampler kSamplers[] = {
    {"penalties",
     {&sampling_row("repetition_penalty"), &sampling_row("presence_penalty"),
      &sampling_row("frequency_penalty")}},
    {"temperature", {&sampling_row("temperature")}},
    {"top_k", {&sampling_row("top_k")}},
    {"top_p", {&sampling_row("top_p")}},
    {"min_p", {&sampling_row("min_p")}},
};

// Samplers that do nothing where their own field is left at what it is here.
constexpr std::string_view kIdle[] = {"dry", "typ_p", "typical_p", "top_n_sigma",
                                      "xtc", "tfs_z", "adaptive_p"};

void turn_off(const Sampler& sampler, SamplingParams& params) {
  for (const SamplingRow* row : sampler.rows)
    if (row != nullptr) set_sampling_value(params, *row, row->neutral());
}

// What is not in the list does not act. The order in which the others do is that of kSamplers:
// where another is asked for, that is ignored.
void settle_samplers(Draft& draft) {
  SamplingParams& params = draft.request.sampling;
  const auto& asked = draft.llama.samplers;
  if (!asked) return;
  const auto place_of = [&](std::string_view name) {
    return std::find(asked->begin(), asked->end(), name);
  };
  std::ptrdiff_t last = -1;
  bool in_order = true;
  for (const Sampler& sampler : kSamplers) {
    const auto at = place_of(sampler.name);
    if (at == asked->end()) {
      turn_off(sampler, params);
      continue;
    }
    // A temperature of 0 or 1 changes no order of likelihood, and no share.
    const bool greedy_or_as_is = params.temperature == 0.0F || params.temperature == 1.0F;
    if (sampler.name == "temperature" && greedy_or_as_is) continue;
    const std::ptrdiff_t place = at - asked->begin();
    in_order = in_order && place > last;
    last = place;
  }
  if (!in_order) draft.unknown.ignore("samplers (their order)");
  for (const std::string& name : *asked) {
    const bool here = std::any_of(std::begin(kSamplers), std::end(kSamplers),
                                  [&](const Sampler& each) { return each.name == name; });
    if (!here && std::find(std::begin(kIdle), std::end(kIdle), name) == std::end(kIdle))
      draft.unknown.ignore(fmt::format("samplers ({})", name));
  }
}

// Penalties count all of the prompt and the answer: a window of them is none, or ignored.
void settle_window(Draft& draft) {
  SamplingParams& params = draft.request.sampling;
  const auto window = draft.llama.repeat_last_n;
  if (!window || *window == -1) return;
  const Sampler& penalties = kSamplers[0];
  if (*window == 0) return turn_off(penalties, params);
  const bool any = std::any_of(
      penalties.rows.begin(), penalties.rows.end(),
      [&](const SamplingRow* row) { return sampling_value(params, *row) != row->neutral(); });
  if (any) draft.unknown.ignore("repeat_last_n");
}

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
  const auto& samplers = llama.samplers;
  if (llama.adaptive && samplers &&
      std::find(samplers->begin(), samplers->end(), "adaptive_p") != samplers->end()) {
    return problem(bad_field("adaptive_target",
                             "is not supported; expected less than 0, which is off, or samplers "
                             "without \"adaptive_p\""));
  }
  if (llama.only_likeliest) request.sampling.top_k = 1;
  settle_samplers(draft);
  settle_window(draft);
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
