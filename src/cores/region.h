#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace dovetail::cores {

// What tells memory areas apart that never overlap: an address, say.
using BufferId = std::uint64_t;

// Bytes of a buffer: a strided view of up to five dimensions, in a normal form that is the same for
// the same bytes in the same order of dimensions. A small value.
class Region {
 public:
  static constexpr std::size_t kMaxDimensions = 5;

  // `size` bytes from `offset` on.
  Region(BufferId buffer, std::uint64_t offset, std::uint64_t size);

  // A view: elements of `element` bytes, `counts[i]` of them in each dimension, `strides[i]` bytes
  // apart; the outermost dimension first, `offset` of the element with the lowest address. Requires
  // as many strides as counts, five at most, and no negative ones. Empty where a count is 0.
  Region(BufferId buffer, std::uint64_t offset, std::uint64_t element,
         std::span<const std::uint64_t> counts, std::span<const std::uint64_t> strides);

  BufferId buffer() const { return buffer_; }
  bool empty() const { return run_ == 0; }
  bool strided() const { return count_ > 0; }  // its bytes do not lie together
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }  // behind the last byte

  // Whether they share a byte. Exact where the views have strides in common, as parts of one tensor
  // do, or one of them has few rows; otherwise true if they might.
  friend bool overlap(const Region& a, const Region& b);

  // Whether all bytes of `inner` are bytes of `outer`; false where that takes too long to find out.
  friend bool covers(const Region& outer, const Region& inner);

  friend bool operator==(const Region&, const Region&) = default;

 private:
  struct Dimension {
    std::uint64_t count = 0;
    std::uint64_t stride = 0;
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };

  // A part of a view: its inner dimensions, at some distance from the part it is compared with.
  struct Part {
    std::span<const Dimension> dimensions;
    std::uint64_t run = 0;
    std::uint64_t extent() const;
  };
  Part part() const { return {std::span(dimensions_).first(count_), run_}; }
  static bool parts_overlap(const Part& a, const Part& b, std::int64_t shift, int& budget);
  static bool part_covers(const Part& outer, const Part& inner, std::int64_t shift);

  BufferId buffer_ = 0;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint64_t run_ = 0;                               // bytes that lie together
  std::array<Dimension, kMaxDimensions> dimensions_{};  // of runs, by falling stride
  std::uint32_t count_ = 0;
};

}  // namespace dovetail::cores
