#include "serve/dialog_store.h"

#include <fmt/core.h>

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

constexpr std::size_t kPlaceDigits = 4;

}  // namespace

std::string item_id(std::string_view begin, std::string_view response, std::size_t place) {
  return fmt::format("{}{}{:0{}x}", begin, response.substr(response.find('_') + 1), place,
                     kPlaceDigits);
}

std::optional<Json> DialogStore::item(std::string_view id, std::string_view owner) {
  const std::size_t begin = id.find('_');
  if (begin == std::string_view::npos || id.size() - begin <= kPlaceDigits) return std::nullopt;
  const std::string_view middle = id.substr(begin + 1, id.size() - begin - 1 - kPlaceDigits);
  const auto kept = response(fmt::format("{}{}", kResponseBegin, middle), owner);
  if (!kept) return std::nullopt;
  Json whole = Json::parse(*kept);
  for (Json& one : whole["output"])
    if (one["id"] == id) return std::move(one);
  return std::nullopt;
}

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
