#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace dovetail::serve {

// Responses with their dialogs, for requests that go on from one ("previous_response_id") or ask
// for one again. Each belongs to the key that it was made with: others do not find it. In memory,
// within bounds: the last used stay. Any thread.
class DialogStore {
 public:
  static constexpr std::size_t kMostDialogs = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  // `owner`: the key's name. `messages`: an array as the chat template sees it, the answer at its
  // end. `response`: JSON text as the client got it.
  void put(const std::string& id, std::string_view owner, const Json& messages,
           std::string response);
  std::optional<Json> messages(std::string_view id, std::string_view owner);
  std::optional<std::string> response(std::string_view id, std::string_view owner);
  bool erase(std::string_view id, std::string_view owner);  // false: it is not there

 private:
  struct Kept {
    std::string owner, messages, response;
    std::list<std::string>::iterator place;
    std::size_t bytes() const { return messages.size() + response.size(); }
  };
  using Map = std::map<std::string, Kept, std::less<>>;

  // Under the lock; the end where it is not there.
  Map::iterator find(std::string_view id, std::string_view owner);
  void drop(Map::iterator at);

  std::mutex mutex_;
  Map kept_;
  std::list<std::string> order_;  // ids, the last used first
  std::size_t bytes_ = 0;
};

}  // namespace dovetail::serve
