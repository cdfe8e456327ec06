#include "model/cpu/experts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/functions.h"
#include "load/limits.h"
#include "model/cpu/scratch.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

// Several for each group, so that a slow one does not hold up the others.
constexpr std::size_t kBlocksPerGroup = 4;

// Rows that an expert has on average in a pass in which it is worth being read twice.
constexpr std::uint32_t kRowsOfExpert = 64;

// How finely the parts of a task share its products: into so many blocks for each of them, of so
// many units at least. Finer ones cost more than parts wait for each other.
constexpr std::size_t kBlocksPerPart = 8;
constexpr std::size_t kFewestUnits = 24;

// In how many blocks each of so many experts' product is cut for so many parts.
std::uint32_t blocks_of(const Linear& product, std::size_t experts, std::size_t parts) {
  if (parts == 1) return 1;
  const auto for_each = [&](std::size_t blocks) { return (blocks + experts - 1) / experts; };
  const std::size_t most =
      std::max(product.units() / kFewestUnits, std::min(product.units(), for_each(parts)));
  return static_cast<std::uint32_t>(std::min(for_each(kBlocksPerPart * parts), most));
}

float sigmoid(float logit) {
  return static_cast<float>(1.0 / (1.0 + kernels::exp(-static_cast<double>(logit))));
}

// Weights by scores of their own.
void weigh(std::span<const float> logits, const Gating& gating, std::span<Choice> choices) {
  // Of large negative logits there may be nothing else to divide by.
  float sum = gating.least_sum;
  for (Choice& choice : choices) {
    choice.weight = gate_score(gating.gate, logits[choice.expert]);
    sum += choice.weight;
  }
  if (!gating.normalized) sum = 1.0F;
  for (Choice& choice : choices) choice.weight = choice.weight / sum * gating.scale;
}

// In the order of their numbers, their weights by what experts scale them with.
void finish_choice(const Gating& gating, std::span<Choice> choices) {
  if (!gating.scales.empty()) {
    for (Choice& choice : choices) choice.weight *= gating.scales[choice.expert];
  }
  std::sort(choices.begin(), choices.end(),
            [](const Choice& a, const Choice& b) { return a.expert < b.expert; });
}

}  // namespace

float gate_score(load::ExpertGate gate, float logit) {
  if (gate == load::ExpertGate::kSigmoid) return sigmoid(logit);
  // log(1 + e^x), which is x where e^-x is nothing beside it.
  const double x = logit;
  const double softplus = x > 20.0 ? x : kernels::log(1.0 + kernels::exp(x));
  return static_cast<float>(std::sqrt(softplus));
}

void weigh_experts(std::span<const float> logits, const Gating& gating,
                   std::span<const float> experts, std::span<Choice> choices) {
  assert(experts.size() == choices.size());
  for (std::size_t i = 0; i < experts.size(); ++i)
    choices[i].expert = static_cast<std::uint32_t>(experts[i]);
  weigh(logits, gating, choices);
  finish_choice(gating, choices);
}

// One bit for each group that is chosen.
template <class Score>
std::uint64_t choose_groups(std::uint32_t experts, const Gating& gating, const Score& score) {
  const std::uint32_t size = experts / gating.groups;
  std::array<float, load::kMostExpertGroups> scores{};
  for (std::uint32_t group = 0; group < gating.groups; ++group) {
    float first = -std::numeric_limits<float>::infinity(), second = first;
    for (std::uint32_t i = 0; i < size; ++i) {
      const float mine = score(group * size + i);
      second = std::max(second, std::min(first, mine));
      first = std::max(first, mine);
    }
    scores[group] = gating.groups_by_two && size > 1 ? first + second : first;
  }
  std::uint64_t chosen = 0;
  for (std::uint32_t i = 0; i < gating.groups_used; ++i) {
    std::uint32_t best = gating.groups;
    for (std::uint32_t group = 0; group < gating.groups; ++group) {
      if ((chosen >> group & 1U) != 0) continue;
      if (best == gating.groups || scores[group] > scores[best]) best = group;
    }
    chosen |= std::uint64_t{1} << best;
  }
  return chosen;
}

void choose_experts(std::span<const float> logits, const Gating& gating,
                    std::span<Choice> choices) {
  assert(!choices.empty() && choices.size() <= logits.size());
  const bool alone = gating.gate != load::ExpertGate::kSoftmax;
  // Of the softmax, over all: biases are for shares, not for logits.
  const bool by_share = !alone && !gating.bias.empty();
  float largest = 0, sum_of_all = 0;
  const auto share = [&largest](float logit) {
    return static_cast<float>(kernels::exp(static_cast<double>(logit - largest)));
  };
  if (by_share) {
    largest = *std::max_element(logits.begin(), logits.end());
    for (const float logit : logits) sum_of_all += share(logit);
  }
  const auto score = [&](std::uint32_t expert) {
    if (by_share) return share(logits[expert]) / sum_of_all + gating.bias[expert];
    if (!alone) return logits[expert];
    const float output = gate_score(gating.gate, logits[expert]);
    return gating.bias.empty() ? output : output + gating.bias[expert];
  };
  const auto experts = static_cast<std::uint32_t>(logits.size());
  const std::uint64_t groups = gating.groups_used < gating.groups
                                   ? choose_groups(experts, gating, score)
                                   : ~std::uint64_t{0};
  // The largest so far, in descending order.
  std::size_t count = 0;
  for (std::uint32_t expert = 0; expert < experts; ++expert) {
    if ((groups >> (expert / (experts / gating.groups)) & 1U) == 0) continue;
    const float mine = score(expert);
    std::size_t at = count;
    while (at > 0 && mine > choices[at - 1].weight) --at;
    if (at == choices.size()) continue;
    if (count < choices.size()) ++count;
    std::copy_backward(choices.begin() + static_cast<std::ptrdiff_t>(at),
                       choices.begin() + static_cast<std::ptrdiff_t>(count - 1),
                       choices.begin() + static_cast<std::ptrdiff_t>(count));
    choices[at] = {expert, mine};
  }
  if (alone) {
    weigh(logits, gating, choices);
    return finish_choice(gating, choices);
  }
  if (by_share) {
    for (Choice& choice : choices) choice.weight = logits[choice.expert];
  } else {
    largest = choices.front().weight;
  }
  float sum = 0;
  if (!gating.normalized) {
    for (const float logit : logits) sum += share(logit);
  }
  for (Choice& choice : choices) {
    choice.weight = share(choice.weight);
    if (gating.normalized) sum += choice.weight;
  }
  for (Choice& choice : choices) choice.weight = choice.weight / sum * gating.scale;
  finish_choice(gating, choices);
}

Experts::Experts(const load::ExpertsConfig& config, std::size_t hidden,
                 std::span<const std::string> layers, const ModelWeights& weights,
                 const kernels::Kernels& kernels, const cores::Topology& topology)
    : kernels_(kernels),
      hidden_(hidden),
      inner_(config.size),
      count_(config.count),
      used_(config.used),
      gating_{config.gate,
              config.normalized,
              {},
              {},
              config.least_sum,
              config.scale,
              config.groups,
              config.groups_used,
              config.groups_by_two},
      lanes_(topology.lanes()),
      groups_(topology.groups().size()),
      activation_(config.activation),
      gated_(config.gated),
      limit_(config.limit),
      shared_(std::make_unique<Group[]>(groups_)) {
  products_.reserve(layers.size() * count_);
  for (const std::string& layer : layers) {
    router_bias_.push_back(config.bias ? weights.vector(layer + "ffn_gate_inp.bias")
                                       : std::span<const float>());
    choice_bias_.push_back(config.picks_biased ? weights.vector(layer + "exp_probs_b.bias")
                                               : std::span<const float>());
    scales_.push_back(config.scaled ? weights.vector(layer + "exp_scales.weight")
                                    : std::span<const float>());
    token_experts_.push_back(config.by_token ? &weights.matrix(layer + "ffn_token_experts.weight")
                                             : nullptr);
    for (std::uint32_t e = 0; e < count_; ++e) {
      const auto of = [&](const char* name) -> const Matrix* {
        return &weights.matrix(fmt::format("{}{}.{}.weight", layer, name, e));
      };
      const auto bias = [&](const char* name) {
        return config.bias ? weights.vector(fmt::format("{}{}.{}.bias", layer, name, e))
                           : std::span<const float>();
      };
      const ExpertProducts& products = products_.emplace_back(
          config.gated
              ? ExpertProducts{Linear(kernels, {of("ffn_gate"), of("ffn_up")}),
                               Linear(kernels, {of("ffn_down")}), bias("ffn_gate"), bias("ffn_up"),
                               bias("ffn_down")}
              : ExpertProducts{Linear(kernels, {of("ffn_up")}), Linear(kernels, {of("ffn_down")}),
                               bias("ffn_up"), std::span<const float>(), bias("ffn_down")});
      prepared_row_bytes_ =
          std::max({prepared_row_bytes_, products.gate_up.row_bytes(), products.down.row_bytes()});
    }
  }
  for (Tile& tile : tiles_) {
    tile.begins.resize(std::size_t{count_} + 1);
    tile.chosen.reserve(count_);
  }
}

void clamp_gates(float limit, float* gate, float* up, std::size_t size) {
  if (limit == 0.0F) return;
  assert(up != nullptr);
  for (std::size_t i = 0; i < size; ++i) {
    gate[i] = std::min(gate[i], limit);
    up[i] = std::clamp(up[i], -limit, limit);
  }
}

TileRows Experts::tile_rows() const {
  return {TileRows::kAll, (kRowsOfExpert * count_ + used_ - 1) / used_};
}

void Experts::reserve(std::size_t rows) {
  const std::size_t entries = rows * used_;
  grow(logits_, rows * count_);
  grow(choices_, entries);
  grow(entries_, entries);
  grow(rows_, entries);
  grow(gate_, entries * inner_);
  if (gated_) grow(up_, entries * inner_);
  grow(results_, entries * hidden_);
  prepared_.reserve(entries * prepared_row_bytes_);
}

Linear::Output Experts::logits(const Rows& rows) {
  return {logits_.data() + std::size_t{rows.first} * count_, count_};
}

void Experts::choose(std::uint32_t layer, const Rows& rows, const Range& part,
                     std::span<const std::int32_t> tokens) {
  const std::span<const float> bias = router_bias_[layer];
  Gating gating = gating_;
  gating.bias = choice_bias_[layer];
  gating.scales = scales_[layer];
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const std::size_t row = rows.first + i;
    if (!bias.empty()) kernels_.add(logits_.data() + row * count_, bias.data(), count_);
    const std::span<const float> logits = std::span(logits_).subspan(row * count_, count_);
    const std::span<Choice> choices = std::span(choices_).subspan(row * used_, used_);
    const Matrix* table = token_experts_[layer];
    if (table == nullptr) {
      choose_experts(logits, gating, choices);
      continue;
    }
    const std::size_t token = static_cast<std::size_t>(tokens[i - part.begin]);
    assert(token < table->rows && table->type == kernels::DataType::kF32);
    std::array<float, load::kMostUsedExperts> experts;
    std::memcpy(experts.data(), table->data + token * used_ * sizeof(float), used_ * sizeof(float));
    weigh_experts(logits, gating, std::span(experts).first(used_), choices);
  }
}

void Experts::sort(const Rows& rows) {
  Tile& tile = tiles_[rows.tile];
  const std::size_t first = first_entry(rows);
  const std::size_t entries = std::size_t{rows.count} * used_;
  const auto choices = std::span(choices_).subspan(first, entries);
  std::fill(tile.begins.begin(), tile.begins.end(), 0U);
  for (const Choice& choice : choices) ++tile.begins[choice.expert + 1];
  tile.chosen.clear();
  for (std::uint32_t expert = 0; expert < count_; ++expert) {
    if (tile.begins[expert + 1] > 0) tile.chosen.push_back(expert);
  }
  const auto rows_of = [&](std::uint32_t expert) { return tile.begins[expert + 1]; };
  std::sort(tile.chosen.begin(), tile.chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
    return rows_of(a) != rows_of(b) ? rows_of(a) > rows_of(b) : a < b;
  });
  std::partial_sum(tile.begins.begin(), tile.begins.end(), tile.begins.begin());
  // Each begin moves to the next one's place, and back again.
  for (std::size_t i = 0; i < entries; ++i) {
    const std::uint32_t entry = tile.begins[choices[i].expert]++;
    entries_[first + i] = entry;
    rows_[first + entry] = static_cast<std::uint32_t>(i / used_);
  }
  std::shift_right(tile.begins.begin(), tile.begins.end(), 1);
  tile.begins.front() = 0;
}

bool Experts::mixed(std::uint32_t rows) const {
  return lanes_ > 1 && 3 * hidden_ * inner_ * used_ * rows >= kWorthSharing;
}

std::uint32_t Experts::blocks(std::uint32_t rows) const {
  // The lanes of one group share all there is. Several take what is there as they come.
  if (groups_ == 1 || !mixed(rows)) return 1;
  return static_cast<std::uint32_t>(
      std::min({kBlocksPerGroup * groups_, std::size_t{rows} * used_, std::size_t{count_}}));
}

void Experts::compute(std::uint32_t layer, const Rows& rows, const float* x,
                      const cores::Part& part) {
  const Tile& tile = tiles_[rows.tile];
  const std::uint32_t blocks = this->blocks(rows.count);
  if (part.block >= tile.chosen.size()) return;
  const auto experts =
      (static_cast<std::uint32_t>(tile.chosen.size()) - part.block + blocks - 1) / blocks;

  struct Expert {
    const ExpertProducts& products;
    std::size_t first;  // entry
    std::uint32_t count;
  };
  const auto expert_at = [&](std::uint32_t index) -> Expert {
    const std::uint32_t number = tile.chosen[part.block + index * blocks];
    return {products_[std::size_t{layer} * count_ + number],
            first_entry(rows) + tile.begins[number], tile.begins[number + 1] - tile.begins[number]};
  };
  const auto prepared = [&](const Expert& expert) {
    return prepared_.data() + expert.first * prepared_row_bytes_;
  };
  const auto gate = [&](const Expert& expert) { return gate_.data() + expert.first * inner_; };
  const auto up = [&](const Expert& expert) { return up_.data() + expert.first * inner_; };

  std::uint32_t all = 0;  // rows
  for (std::uint32_t i = 0; i < experts; ++i) all += expert_at(i).count;
  const Range own = part_of(all, part.part, part.parts);
  // What one row after the other takes, shared out by their number.
  const auto each_row = [&](const auto& function) {
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < experts && before < own.end; ++i) {
      const Expert expert = expert_at(i);
      const std::uint32_t end = std::min(before + expert.count, own.end);
      for (std::uint32_t row = std::max(before, own.begin); row < end; ++row)
        function(expert, row - before);
      before += expert.count;
    }
  };

  Group& group = shared_[part.group];
  std::atomic<std::uint32_t> mine{0};
  std::atomic<std::uint32_t>& next = part.parts == 1 ? mine : group.next;
  const auto meet = [&] {
    const auto reset = [&] { next.store(0, std::memory_order_relaxed); };
    if (mutated(Mutant::kPartsDoNotMeet)) return reset();
    group.parts.meet(part.parts, reset);
  };
  // Products, in blocks that the parts take as they come to them: none waits long for another one.
  const auto share_products = [&](const Linear& any, const auto& function) {
    const std::uint32_t of_each = blocks_of(any, experts, part.parts);
    for (;;) {
      const std::uint32_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= experts * of_each) return;
      function(expert_at(index / of_each), index % of_each, of_each);
    }
  };

  each_row([&](const Expert& expert, std::uint32_t row) {
    expert.products.gate_up.prepare(x + rows_[expert.first + row] * hidden_, row, expert.count,
                                    prepared(expert));
  });
  meet();
  share_products(products_.front().gate_up,
                 [&](const Expert& expert, std::uint32_t block, std::uint32_t of) {
                   if (!gated_) {
                     return expert.products.gate_up.multiply(
                         block, of, expert.count, prepared(expert), {{gate(expert), inner_}});
                   }
                   expert.products.gate_up.multiply(block, of, expert.count, prepared(expert),
                                                    {{gate(expert), inner_}, {up(expert), inner_}});
                 });
  meet();
  each_row([&](const Expert& expert, std::uint32_t row) {
    const auto add = [&](float* sum, std::span<const float> bias) {
      if (!bias.empty()) kernels_.add(sum, bias.data(), inner_);
    };
    float* activated = gate(expert) + row * inner_;
    float* factor = gated_ ? up(expert) + row * inner_ : nullptr;
    add(activated, expert.products.gate_bias);
    add(factor, expert.products.up_bias);
    clamp_gates(limit_, activated, factor, inner_);
    kernels_.gate(activation_, activated, factor, inner_, activated);
    expert.products.down.prepare(activated, row, expert.count, prepared(expert));
  });
  meet();
  share_products(
      products_.front().down, [&](const Expert& expert, std::uint32_t block, std::uint32_t of) {
        expert.products.down.multiply(block, of, expert.count, prepared(expert),
                                      {{results_.data() + expert.first * hidden_, hidden_}});
      });
}

void Experts::combine(std::uint32_t layer, const Rows& rows, const Range& part, float* out) {
  const std::size_t first = first_entry(rows);
  for (std::size_t i = part.begin; i < part.end; ++i) {
    float* sum = out + i * hidden_;
    std::fill_n(sum, hidden_, 0.0F);
    for (std::size_t k = i * used_; k < (i + 1) * used_; ++k) {
      const std::size_t entry = entries_[first + k];
      if (mutated(Mutant::kCapacity) &&
          entry - tiles_[rows.tile].begins[choices_[first + k].expert] >
              rows.count * used_ / count_)
        continue;
      float* result = results_.data() + (first + entry) * hidden_;
      const Choice& choice = choices_[first + k];
      const std::span<const float> bias =
          products_[std::size_t{layer} * count_ + choice.expert].down_bias;
      if (!bias.empty()) kernels_.add(result, bias.data(), hidden_);
      kernels_.add_scaled(sum, result, choice.weight, hidden_);
    }
  }
}

}  // namespace dovetail::model
