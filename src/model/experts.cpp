#include "model/experts.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "model/mutation.h"
#include "model/scratch.h"

namespace dovetail::model {

void choose_experts(std::span<const float> logits, bool normalized, std::span<Choice> choices) {
  assert(!choices.empty() && choices.size() <= logits.size());
  // The largest so far, in descending order.
  std::size_t count = 0;
  for (std::uint32_t expert = 0; expert < logits.size(); ++expert) {
    const float logit = logits[expert];
    std::size_t at = count;
    while (at > 0 && logit > choices[at - 1].weight) --at;
    if (at == choices.size()) continue;
    if (count < choices.size()) ++count;
    std::copy_backward(choices.begin() + static_cast<std::ptrdiff_t>(at),
                       choices.begin() + static_cast<std::ptrdiff_t>(count - 1),
                       choices.begin() + static_cast<std::ptrdiff_t>(count));
    choices[at] = {expert, logit};
  }
  const float largest = choices.front().weight;
  float sum = 0;
  if (!normalized) {
    for (const float logit : logits) sum += std::exp(logit - largest);
  }
  for (Choice& choice : choices) {
    choice.weight = std::exp(choice.weight - largest);
    if (normalized) sum += choice.weight;
  }
  for (Choice& choice : choices) choice.weight /= sum;
  std::sort(choices.begin(), choices.end(),
            [](const Choice& a, const Choice& b) { return a.expert < b.expert; });
}

Experts::Experts(const load::ModelConfig& config, std::span<const LayerWeights> layers,
                 const kernels::Kernels& kernels, const cores::Topology& topology)
    : kernels_(kernels),
      hidden_(config.hidden_size),
      inner_(config.intermediate_size),
      count_(config.experts.count),
      used_(config.experts.used),
      normalized_(config.experts.normalized),
      lanes_(topology.lanes()),
      groups_(topology.groups().size()),
      parts_(std::make_unique<cores::Rendezvous[]>(groups_)) {
  routers_.reserve(layers.size());
  products_.reserve(layers.size() * count_);
  for (const LayerWeights& layer : layers) {
    assert(layer.feed_forward.size() == count_);
    routers_.push_back(Linear(kernels, {&layer.router}));
    for (const FeedForward& expert : layer.feed_forward) {
      const FeedForwardProducts& products = products_.emplace_back(expert, kernels);
      prepared_row_bytes_ =
          std::max({prepared_row_bytes_, products.gate_up.row_bytes(), products.down.row_bytes()});
    }
  }
  for (Tile& tile : tiles_) {
    tile.begins.resize(std::size_t{count_} + 1);
    tile.chosen.reserve(count_);
  }
}

void Experts::reserve(std::size_t rows) {
  const std::size_t entries = rows * used_;
  grow(logits_, rows * count_);
  grow(choices_, entries);
  grow(entries_, entries);
  grow(rows_, entries);
  grow(gate_, entries * inner_);
  grow(up_, entries * inner_);
  grow(results_, entries * hidden_);
  prepared_.reserve(entries * prepared_row_bytes_);
}

Linear::Output Experts::logits(const Rows& rows) {
  return {logits_.data() + std::size_t{rows.first} * count_, count_};
}

void Experts::choose(const Rows& rows, const Range& part) {
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const std::size_t row = rows.first + i;
    choose_experts(std::span(logits_).subspan(row * count_, count_), normalized_,
                   std::span(choices_).subspan(row * used_, used_));
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

std::uint32_t Experts::blocks(std::uint32_t rows) const {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(std::size_t{rows} * used_, 1, count_));
}

bool Experts::join(std::uint32_t rows) const {
  // The experts of a single row have that one each.
  return worth_joining(blocks(rows), rows == 1, 3 * hidden_ * inner_ * used_ * rows, lanes_,
                       groups_);
}

void Experts::compute(std::uint32_t layer, const Rows& rows, const float* x,
                      const cores::Part& part) {
  const Tile& tile = tiles_[rows.tile];
  if (part.block >= tile.chosen.size()) return;
  const std::uint32_t expert = tile.chosen[part.block];
  const std::size_t first = first_entry(rows) + tile.begins[expert];
  const std::uint32_t count = tile.begins[expert + 1] - tile.begins[expert];
  const FeedForwardProducts& products = products_[std::size_t{layer} * count_ + expert];
  const Range own = part_of(count, part.part, part.parts);
  std::byte* prepared = prepared_.data() + first * prepared_row_bytes_;
  float* gate = gate_.data() + first * inner_;
  float* up = up_.data() + first * inner_;
  const auto meet = [&] {
    if (!mutated(Mutant::kPartsDoNotMeet)) parts_[part.group].meet(part.parts);
  };
  for (std::uint32_t i = own.begin; i < own.end; ++i)
    products.gate_up.prepare(x + rows_[first + i] * hidden_, i, count, prepared);
  meet();
  products.gate_up.multiply(part.part, part.parts, count, prepared, {{gate, inner_}, {up, inner_}});
  meet();
  for (std::uint32_t i = own.begin; i < own.end; ++i) {
    float* row = gate + i * inner_;
    kernels_.silu_mul(row, up + i * inner_, inner_, row);
    products.down.prepare(row, i, count, prepared);
  }
  meet();
  products.down.multiply(part.part, part.parts, count, prepared,
                         {{results_.data() + first * hidden_, hidden_}});
}

void Experts::combine(const Rows& rows, const Range& part, float* out) const {
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
      kernels_.add_scaled(sum, results_.data() + (first + entry) * hidden_,
                          choices_[first + k].weight, hidden_);
    }
  }
}

}  // namespace dovetail::model
