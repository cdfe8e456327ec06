#pragma once

#include <bitset>
#include <cstddef>

#include "kernels/data_type.h"

namespace dovetail::model {

// Some of the weight types.
class TypeSet {
 public:
  static TypeSet all() {
    TypeSet set;
    set.has_.set();
    return set;
  }

  bool has(kernels::DataType type) const { return has_[static_cast<std::size_t>(type)]; }
  void add(kernels::DataType type) { has_.set(static_cast<std::size_t>(type)); }
  void remove(kernels::DataType type) { has_.reset(static_cast<std::size_t>(type)); }
  bool empty() const { return has_.none(); }

  bool operator==(const TypeSet&) const = default;

 private:
  std::bitset<kernels::kDataTypes> has_;
};

}  // namespace dovetail::model
