#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace dovetail::serve {

// Dialogs by the id of their last response, for requests that go on from one
// ("previous_response_id"). In memory, within bounds: the last used stay. Any thread.
class DialogStore {
 public:
  static constexpr std::size_t kMostDialogs = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  // `messages`: an array as the chat template sees it.
  void put(const std::string& id, const Json& messages);
  std::optional<Json> find(std::string_view id);

 private:
  struct Kept {
    std::string text;
    std::list<std::string>::iterator place;
  };
  std::mutex mutex_;
  std::map<std::string, Kept, std::less<>> kept_;
  std::list<std::string> order_;  // ids, the last used first
  std::size_t bytes_ = 0;
};

}  // namespace dovetail::serve
