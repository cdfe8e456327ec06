// llama.cpp's "samplers" and "repeat_last_n": which samplers act, and what penalties count.
#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sampling_table.h"
#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

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
void settle_list(Draft& draft) {
  SamplingParams& params = draft.request.sampling;
  const auto& asked = draft.samplers;
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
  const auto window = draft.penalty_window;
  if (!window || *window == -1) return;
  const Sampler& penalties = kSamplers[0];
  if (*window == 0) return turn_off(penalties, params);
  const bool any = std::any_of(
      penalties.rows.begin(), penalties.rows.end(),
      [&](const SamplingRow* row) { return sampling_value(params, *row) != row->neutral(); });
  if (any) draft.unknown.ignore(draft.penalty_window_field);
}

}  // namespace

Problem read_samplers(std::string_view field, const Json& value, Draft& draft) {
  constexpr std::pair<char, std::string_view> kLetters[] = {
      {'d', "dry"},         {'k', "top_k"},     {'y', "typ_p"},       {'p', "top_p"},
      {'s', "top_n_sigma"}, {'m', "min_p"},     {'t', "temperature"}, {'x', "xtc"},
      {'i', "infill"},      {'e', "penalties"}, {'a', "adaptive_p"}};
  std::vector<std::string> names;
  if (value.is_string()) {
    for (const char letter : value.get_ref<const std::string&>()) {
      const auto* known = std::find_if(std::begin(kLetters), std::end(kLetters),
                                       [letter](const auto& each) { return each.first == letter; });
      names.emplace_back(known == std::end(kLetters) ? std::string(1, letter)
                                                     : std::string(known->second));
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      auto name = read_string(fmt::format("{}[{}]", field, i), value[i]);
      if (!name) return std::move(name.error());
      std::replace(name->begin(), name->end(), '-', '_');
      names.push_back(*name == "temp" ? "temperature" : *std::move(name));
    }
  } else {
    return problem(bad_field(field, "expected an array of names, got {}", shown(value)));
  }
  draft.samplers = std::move(names);
  return std::nullopt;
}

void settle_samplers(Draft& draft) {
  settle_list(draft);
  settle_window(draft);
}

}  // namespace dovetail::serve
