#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// A bar of a histogram: values in [from, to).
struct HistogramBin {
  double from = 0, to = 0;
  std::uint64_t count = 0;
  friend bool operator==(const HistogramBin&, const HistogramBin&) = default;
};

// How often whole numbers came (tokens, characters, microseconds), in at most 1,920 bins, whatever
// comes: numbers below 64 have one each, larger ones a bin of 1/32 of their power of two. Count,
// least and greatest are exact.
class LogHistogram {
 public:
  void add(std::uint64_t value);

  std::uint64_t count() const { return count_; }
  std::uint64_t least() const { return least_; }  // 0 without values
  std::uint64_t greatest() const { return greatest_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  // The smallest value that at least this share (0 to 1) of all is not above, to within its bin.
  std::uint64_t quantile(double share) const;

  // How many values are below `value`; exact where it is at most 64 or the beginning of a bin,
  // else as if the values of its bin were spread evenly.
  std::uint64_t below(double value) const;

  static std::size_t bin_of(std::uint64_t value);
  static std::uint64_t begin_of(std::size_t bin);

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, least_ = 0, greatest_ = 0;
  double sum_ = 0;
};

// How often real numbers came, of whatever sign and scale, in at most 64 bins of one width, a power
// of two. The first values, up to 256, are kept until they tell how wide; the width doubles when
// values outgrow the bins. Whole numbers have bins at least 1 wide. Values that are not finite are
// not counted.
class NumberHistogram {
 public:
  void add(double value);

  std::uint64_t count() const { return count_; }
  double least() const { return least_; }
  double greatest() const { return greatest_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  bool whole() const { return whole_; }  // all of them

  // By value, empty ones included; none without values.
  std::vector<HistogramBin> bins() const;

 private:
  void settle();
  void put(double value);

  std::vector<double> first_;  // until they are settled
  int exponent_ = 0;           // the width is 2 to this power
  std::map<std::int64_t, std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double least_ = 0, greatest_ = 0, sum_ = 0;
  bool settled_ = false, whole_ = true;
};

// How often texts came. The first so many different ones are counted exactly, as is the number of
// all others together; texts longer than 200 bytes are among those.
class TopValues {
 public:
  explicit TopValues(std::size_t most = 512) : most_(most) {}
  void add(std::string_view text);

  struct Entry {
    std::string text;
    std::uint64_t count = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  // The most frequent first, equals by text.
  std::vector<Entry> top(std::size_t most) const;
  std::uint64_t count_of(std::string_view text) const;
  std::size_t distinct() const { return counts_.size(); }  // of those counted
  std::uint64_t others() const { return others_; }
  std::uint64_t count() const { return count_; }

 private:
  std::size_t most_;
  std::map<std::string, std::uint64_t, std::less<>> counts_;
  std::uint64_t count_ = 0, others_ = 0;
};

}  // namespace dovetail::pipeline
