#include "cores/region.h"

#include <algorithm>
#include <cassert>

namespace dovetail::cores {
namespace {

// Rows that are looked at one by one before two views count as overlapping.
constexpr int kBudget = 256;

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && a < 0 ? 1 : 0);
}

}  // namespace

Region::Region(BufferId buffer, std::uint64_t offset, std::uint64_t size)
    : buffer_(buffer), begin_(offset), end_(offset + size), run_(size) {}

Region::Region(BufferId buffer, std::uint64_t offset, std::uint64_t element,
               std::span<const std::uint64_t> counts, std::span<const std::uint64_t> strides)
    : buffer_(buffer), begin_(offset), end_(offset), run_(element) {
  assert(counts.size() == strides.size() && counts.size() <= kMaxDimensions);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      run_ = 0;
      count_ = 0;
      dimensions_ = {};
      return;
    }
    // A dimension of one element, or of the same one again, adds nothing.
    if (counts[i] > 1 && strides[i] > 0) dimensions_[count_++] = {counts[i], strides[i]};
  }
  const auto dimensions = std::span(dimensions_).first(count_);
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  // What lies together is one: elements a run, rows that follow each other one dimension.
  while (count_ > 0 && dimensions_[count_ - 1].stride <= run_) {
    const Dimension last = dimensions_[--count_];
    run_ += (last.count - 1) * last.stride;
    dimensions_[count_] = {};
  }
  for (std::uint32_t i = 1; i < count_;) {
    Dimension& outer = dimensions_[i - 1];
    const Dimension& inner = dimensions_[i];
    if (outer.stride != inner.count * inner.stride) {
      ++i;
      continue;
    }
    outer = {outer.count * inner.count, inner.stride};
    std::copy(dimensions_.begin() + i + 1, dimensions_.begin() + count_, dimensions_.begin() + i);
    dimensions_[--count_] = {};
  }
  end_ = begin_ + part().extent();
}

// From the first byte to behind the last.
std::uint64_t Region::Part::extent() const {
  std::uint64_t bytes = run;
  for (const Dimension& dimension : dimensions) bytes += (dimension.count - 1) * dimension.stride;
  return bytes;
}

// `b` begins `shift` bytes behind `a`.
bool Region::parts_overlap(const Part& a, const Part& b, std::int64_t shift, int& budget) {
  const auto extent_a = static_cast<std::int64_t>(a.extent());
  const auto extent_b = static_cast<std::int64_t>(b.extent());
  if (shift >= extent_a || -shift >= extent_b) return false;
  if (a.dimensions.empty() && b.dimensions.empty()) return true;
  if (!a.dimensions.empty() && !b.dimensions.empty() &&
      a.dimensions[0].stride == b.dimensions[0].stride) {
    const auto stride = static_cast<std::int64_t>(a.dimensions[0].stride);
    const Part row_a = {a.dimensions.subspan(1), a.run};
    const Part row_b = {b.dimensions.subspan(1), b.run};
    if (row_a.extent() <= a.dimensions[0].stride && row_b.extent() <= b.dimensions[0].stride) {
      // Row i of a meets row j of b only where they are less than a stride apart.
      const auto count_a = static_cast<std::int64_t>(a.dimensions[0].count);
      const auto count_b = static_cast<std::int64_t>(b.dimensions[0].count);
      const std::int64_t rows = floor_divide(shift, stride);
      for (const std::int64_t apart : {rows, rows + 1}) {
        // j - i = -apart for some rows of both
        if (apart >= count_a || -apart >= count_b) continue;
        if (parts_overlap(row_a, row_b, shift - apart * stride, budget)) return true;
      }
      return false;
    }
  }
  // Row by row of the one with fewer of them.
  const bool split_b = a.dimensions.empty() ||
                       (!b.dimensions.empty() && b.dimensions[0].count < a.dimensions[0].count);
  const Dimension& rows = split_b ? b.dimensions[0] : a.dimensions[0];
  const Part row =
      split_b ? Part{b.dimensions.subspan(1), b.run} : Part{a.dimensions.subspan(1), a.run};
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    if (--budget < 0) return true;
    const auto at = static_cast<std::int64_t>(i * rows.stride);
    if (split_b ? parts_overlap(a, row, shift + at, budget)
                : parts_overlap(row, b, shift - at, budget)) {
      return true;
    }
  }
  return false;
}

bool Region::part_covers(const Part& outer, const Part& inner, std::int64_t shift) {
  const auto extent_outer = static_cast<std::int64_t>(outer.extent());
  const auto extent_inner = static_cast<std::int64_t>(inner.extent());
  if (shift < 0 || shift + extent_inner > extent_outer) return false;
  if (outer.dimensions.empty()) return true;
  const Part row_outer = {outer.dimensions.subspan(1), outer.run};
  const auto stride = static_cast<std::int64_t>(outer.dimensions[0].stride);
  const std::int64_t first = shift / stride;
  std::int64_t rows = 1;
  Part row_inner = inner;
  if (!inner.dimensions.empty() && inner.dimensions[0].stride == outer.dimensions[0].stride) {
    rows = static_cast<std::int64_t>(inner.dimensions[0].count);
    row_inner = {inner.dimensions.subspan(1), inner.run};
  }
  return first + rows <= static_cast<std::int64_t>(outer.dimensions[0].count) &&
         part_covers(row_outer, row_inner, shift - first * stride);
}

bool overlap(const Region& a, const Region& b) {
  if (a.buffer_ != b.buffer_ || a.empty() || b.empty()) return false;
  int budget = kBudget;
  return Region::parts_overlap(a.part(), b.part(), static_cast<std::int64_t>(b.begin_ - a.begin_),
                               budget);
}

bool covers(const Region& outer, const Region& inner) {
  if (inner.empty()) return true;
  if (outer.buffer_ != inner.buffer_ || outer.empty()) return false;
  return Region::part_covers(outer.part(), inner.part(),
                             static_cast<std::int64_t>(inner.begin_ - outer.begin_));
}

}  // namespace dovetail::cores
