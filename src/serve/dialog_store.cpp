#include "serve/dialog_store.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {

void DialogStore::put(const std::string& id, const Json& messages) {
  std::string text = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::size_t size = text.size();
  texts_.put(id, std::move(text), size);
}

std::optional<Json> DialogStore::find(std::string_view id) {
  const auto text = texts_.find(id);
  if (!text) return std::nullopt;
  return Json::parse(*text);
}

}  // namespace dovetail::serve
