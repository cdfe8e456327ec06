#include "serve/dialog_store.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {

void DialogStore::put(const std::string& id, std::string_view owner, const Json& messages,
                      std::string response) {
  Kept fresh;
  fresh.owner = owner;
  fresh.messages = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  fresh.response = std::move(response);
  if (fresh.bytes() > kMostBytes) return;
  const std::lock_guard lock(mutex_);
  const auto [at, inserted] = kept_.try_emplace(id, std::move(fresh));
  if (!inserted) return;
  bytes_ += at->second.bytes();
  order_.push_front(id);
  at->second.place = order_.begin();
  while (order_.size() > kMostDialogs || bytes_ > kMostBytes) drop(kept_.find(order_.back()));
}

std::optional<Json> DialogStore::messages(std::string_view id, std::string_view owner) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const auto at = find(id, owner);
    if (at == kept_.end()) return std::nullopt;
    text = at->second.messages;
  }
  return Json::parse(text);
}

std::optional<std::string> DialogStore::response(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto at = find(id, owner);
  if (at == kept_.end()) return std::nullopt;
  return at->second.response;
}

bool DialogStore::erase(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto at = find(id, owner);
  if (at == kept_.end()) return false;
  drop(at);
  return true;
}

DialogStore::Map::iterator DialogStore::find(std::string_view id, std::string_view owner) {
  const auto at = kept_.find(id);
  if (at == kept_.end() || at->second.owner != owner) return kept_.end();
  order_.splice(order_.begin(), order_, at->second.place);
  return at;
}

void DialogStore::drop(Map::iterator at) {
  bytes_ -= at->second.bytes();
  order_.erase(at->second.place);
  kept_.erase(at);
}

}  // namespace dovetail::serve
