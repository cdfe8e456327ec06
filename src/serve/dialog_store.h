#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/recent_store.h"

namespace dovetail::serve {

// Dialogs by the id of their last response, for requests that go on from one
// ("previous_response_id"). Any thread.
class DialogStore {
 public:
  static constexpr std::size_t kMostDialogs = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  // `messages`: an array as the chat template sees it.
  void put(const std::string& id, const Json& messages);
  std::optional<Json> find(std::string_view id);

 private:
  RecentStore<std::string> texts_{kMostDialogs, kMostBytes};
};

}  // namespace dovetail::serve
