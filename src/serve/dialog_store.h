#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/recent_store.h"

namespace dovetail::serve {

// What ids of responses begin with.
inline constexpr std::string_view kResponseBegin = "resp_";

// The id of an item of a response, by which DialogStore::item() finds it: "msg_" and the like, what
// the response's id has behind its own begin, and the item's place.
std::string item_id(std::string_view begin, std::string_view response, std::size_t place);

// Responses with their dialogs, for requests that go on from one ("previous_response_id") or ask
// for one again. Each belongs to the key that it was made with: others do not find it. In memory,
// within bounds: the last used stay. Any thread.
class DialogStore {
 public:
  static constexpr std::size_t kMostDialogs = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  // `owner`: the key's name. `messages`: an array as the chat template sees it, the answer at its
  // end. `response`: JSON text as the client got it.
  void put(std::string_view id, std::string_view owner, const Json& messages, std::string response);
  std::optional<Json> messages(std::string_view id, std::string_view owner);
  std::optional<std::string> response(std::string_view id, std::string_view owner);
  // An item of the output of a response that is kept.
  std::optional<Json> item(std::string_view id, std::string_view owner);
  bool erase(std::string_view id, std::string_view owner);  // false: it is not there

 private:
  struct Kept {
    std::string messages, response;
  };
  RecentStore<std::shared_ptr<const Kept>> kept_{kMostDialogs, kMostBytes};
};

}  // namespace dovetail::serve
