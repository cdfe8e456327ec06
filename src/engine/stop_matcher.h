#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::engine {

// Looks for stop strings in text that comes in pieces, and holds back what may yet become one. The
// first stop string to be complete wins; among those that end at the same byte, the longest. How
// the text is cut into pieces makes no difference.
class StopMatcher {
 public:
  // No string may be empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Found {
    std::string text;                    // before the stop string, as far as not yet returned
    std::optional<std::string> stopped;  // the stop string; nothing may be pushed after it
  };
  Found push(std::string_view piece);

  // The text held back, at the end of the output.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace dovetail::engine
