#include "serve/dialog_store.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {
namespace {

// Names of keys hold no NUL.
std::string owned(std::string_view id, std::string_view owner) {
  std::string text(id);
  text.push_back('\0');
  return text.append(owner);
}

}  // namespace

void DialogStore::put(std::string_view id, std::string_view owner, const Json& messages,
                      std::string response) {
  auto kept = std::make_shared<Kept>();
  kept->messages = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  kept->response = std::move(response);
  const std::size_t size = kept->messages.size() + kept->response.size();
  kept_.put(owned(id, owner), std::move(kept), size);
}

std::optional<Json> DialogStore::messages(std::string_view id, std::string_view owner) {
  const auto kept = kept_.find(owned(id, owner));
  if (!kept) return std::nullopt;
  return Json::parse((*kept)->messages);
}

std::optional<std::string> DialogStore::response(std::string_view id, std::string_view owner) {
  const auto kept = kept_.find(owned(id, owner));
  if (!kept) return std::nullopt;
  return (*kept)->response;
}

bool DialogStore::erase(std::string_view id, std::string_view owner) {
  return kept_.erase(owned(id, owner));
}

}  // namespace dovetail::serve
