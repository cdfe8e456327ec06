#include "serve/dialog_store.h"

#include <nlohmann/json.hpp>

namespace dovetail::serve {

void DialogStore::put(const std::string& id, const Json& messages) {
  std::string text = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostBytes) return;
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = kept_.try_emplace(id);
  if (!fresh) return;
  bytes_ += text.size();
  at->second.text = std::move(text);
  order_.push_front(id);
  at->second.place = order_.begin();
  while (order_.size() > kMostDialogs || bytes_ > kMostBytes) {
    const auto last = kept_.find(order_.back());
    bytes_ -= last->second.text.size();
    kept_.erase(last);
    order_.pop_back();
  }
}

std::optional<Json> DialogStore::find(std::string_view id) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const auto at = kept_.find(id);
    if (at == kept_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, at->second.place);
    text = at->second.text;
  }
  return Json::parse(text);
}

}  // namespace dovetail::serve
