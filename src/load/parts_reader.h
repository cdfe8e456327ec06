#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "load/quantization.h"
#include "load/safetensors.h"
#include "load/stored_parts.h"

namespace dovetail::load {

// A tensor and the file that it lies in.
struct Found {
  const SafetensorsTensor* tensor = nullptr;  // null: there is none
  std::string_view file;
};

// A number of a tensor of I32 or I64.
std::int64_t integer_at(const SafetensorsTensor& tensor, std::size_t index);
bool all_zero(std::span<const std::byte> bytes);
// In how many parts of that size, the last of which may be smaller.
std::uint64_t parts_of(std::uint64_t size, std::uint64_t part);

// Finds and checks the tensors that quantised weights are stored in, one weight after another.
// What fails leaves the first error there is; later checks say no then, and add none.
class PartsReader {
 public:
  // Views into all of them, which must outlive it.
  PartsReader(const Quantization& quantization,
              std::span<const std::vector<SafetensorsTensor>> shards,
              std::span<const std::string_view> files);

  // Goes on to the weight that has these codes, the name of which ends so.
  void begin(const Found& codes, std::string_view ending);

  const Quantization& quantization() const { return quantization_; }
  const std::optional<Error>& error() const { return error_; }
  bool failed() const { return error_.has_value(); }
  // The beginning of the names of the weight's parts.
  const std::string& stem() const { return stem_; }
  bool is_used(const SafetensorsTensor& tensor) const { return used_.contains(&tensor); }

  // Told by what reads the codes: sizes before rows and columns, and the scale of all of it.
  std::vector<std::uint64_t> outer;
  float factor = 1.0F;
  std::size_t matrices() const;  // as many as the outer sizes make

  // A part of the weight, by the ending of its name: one that is looked at, and one that is used up
  // by that.
  Found peek(std::string_view ending) const;
  Found optional_part(std::string_view ending);
  // One that must be there, by any of the endings.
  Found part(const Found& codes, std::initializer_list<std::string_view> endings);
  Found part(const Found& codes, std::string_view ending) { return part(codes, {ending}); }

  // Whether a tensor is as it has to be.
  bool check_shape(const Found& found, std::initializer_list<std::uint64_t> shape);
  bool check_rank(const Found& found, std::size_t rank);  // of sizes of 1 or more
  bool check_type(const Found& found, std::initializer_list<std::string_view> valid);
  bool check_scales(const Found& found) { return check_type(found, {"F32", "F16", "BF16"}); }
  // Groups of columns as the file has them, in rows of columns that the types of blocks can hold.
  bool check_groups(const Found& codes, std::uint64_t columns, std::uint64_t group,
                    std::uint64_t block);

  // Fills in the scales of a weight of `rows` x `columns`: one for all, for each row, for each row
  // and group of columns, or for each block of rows and columns. Returns whether they fit.
  bool read_scales(const Found& scales, StoredParts& parts);

  void refuse(const Found& found, std::string_view value, std::string_view valid, ErrorKind kind);

 private:
  const Quantization& quantization_;
  std::unordered_map<std::string_view, Found> all_;
  std::unordered_set<const SafetensorsTensor*> used_;
  std::string stem_;
  std::optional<Error> error_;
};

}  // namespace dovetail::load
