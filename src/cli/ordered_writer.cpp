#include "cli/ordered_writer.h"

#include <cassert>
#include <utility>

namespace dovetail::cli {

Status OrderedWriter::put(std::size_t index, std::string text) {
  assert(index >= next_ && !waiting_.contains(index));
  waiting_.emplace(index, std::move(text));
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    const Status ok = write_(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
    if (!ok) return ok;
  }
  return {};
}

Status OrderedWriter::finish() {
  for (const auto& [index, text] : waiting_) {
    if (const Status ok = write_(text); !ok) return ok;
  }
  waiting_.clear();
  return {};
}

}  // namespace dovetail::cli
