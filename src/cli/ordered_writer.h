#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dovetail::cli {

// Puts what comes in any order into the order of its index: an item is written as soon as all
// before it are. One thread.
class OrderedWriter {
 public:
  using Write = std::function<Status(std::string_view)>;

  explicit OrderedWriter(Write write) : write_(std::move(write)) {}

  // Each index once, from 0. An error is that of the writing.
  Status put(std::size_t index, std::string text);

  // Writes what waits behind a gap, in order; nothing may come afterwards.
  Status finish();

  std::size_t written() const { return next_; }  // the items before the first gap

 private:
  Write write_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::string> waiting_;
};

}  // namespace dovetail::cli
