#include "serve/kept_responses.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/dialog_store.h"
#include "serve/json_input.h"
#include "serve/request_target.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kResponsePrefix = "/responses/";
constexpr std::string_view kItemsSuffix = "/input_items";
constexpr std::size_t kDefaultItems = 20, kMaxItems = 100;

std::string id_of(std::string_view target) {
  std::string_view id = bare_path(target).substr(kResponsePrefix.size());
  if (id.ends_with(kItemsSuffix)) id.remove_suffix(kItemsSuffix.size());
  return percent_decoded(id);
}

tl::unexpected<ApiError> not_kept(const std::string& id) {
  ApiError error;
  error.status = 404;
  error.code = "response_not_found";
  error.message = fmt::format("there is no response {} here; expected the id of one that was kept",
                              shown(Json(id)));
  return tl::unexpected<ApiError>(std::move(error));
}

HttpResponse kept_answer(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

// The items of a dialog's messages, with ids that are the same each time.
class ItemList {
 public:
  explicit ItemList(std::string_view response)
      : response_(response.substr(response.find('_') + 1)) {}

  void add(const Json& message) {
    const std::string& role = message.at("role").get_ref<const std::string&>();
    const Json& content = message.at("content");
    if (role == "tool") {
      Json& item = add_item("fco_", "function_call_output");
      item["call_id"] = message.value("tool_call_id", "");
      item["output"] = content;
      return;
    }
    const bool answer = role == "assistant";
    if (answer && message.contains("reasoning_content")) {
      Json& item = add_item("rs_", "reasoning");
      item["summary"] = Json::array();
      item["content"] =
          Json::array({{{"type", "reasoning_text"}, {"text", message["reasoning_content"]}}});
    }
    const bool says_nothing = content.is_string() && content.get_ref<const std::string&>().empty();
    if (!answer || !says_nothing) {
      Json& item = add_item("msg_", "message");
      item["role"] = role;
      Json part = {{"type", answer ? "output_text" : "input_text"}, {"text", content}};
      if (answer) part["annotations"] = Json::array();
      item["content"] = Json::array({std::move(part)});
    }
    if (!message.contains("tool_calls")) return;
    for (const Json& call : message["tool_calls"]) {
      Json& item = add_item("fc_", "function_call");
      item["call_id"] = call.value("id", "");
      item["name"] = call.at("function").at("name");
      item["arguments"] = call.at("function").at("arguments");
    }
  }

  std::vector<Json> take() { return std::move(items_); }

 private:
  Json& add_item(const char* begin, const char* type) {
    Json& item = items_.emplace_back();
    item["id"] = fmt::format("{}{}_{}", begin, response_, items_.size() - 1);
    item["type"] = type;
    item["status"] = "completed";
    return item;
  }

  std::string response_;
  std::vector<Json> items_;
};

// Which of the items are asked for.
struct Page {
  std::size_t limit = kDefaultItems;
  bool newest_first = true;
  std::optional<std::string> after;
};

Outcome<Page> read_page(std::string_view target) {
  Page page;
  if (const auto text = query_value(target, "limit")) {
    const char* end = text->data() + text->size();
    const auto [read, failure] = std::from_chars(text->data(), end, page.limit);
    if (failure != std::errc() || read != end || page.limit < 1 || page.limit > kMaxItems) {
      return bad_field("limit", "{} is no number of items; expected 1 to {}", shown(Json(*text)),
                       kMaxItems);
    }
  }
  if (const auto order = query_value(target, "order")) {
    if (*order != "asc" && *order != "desc")
      return bad_field("order", "{} is none; expected \"asc\" or \"desc\"", shown(Json(*order)));
    page.newest_first = *order == "desc";
  }
  page.after = query_value(target, "after");
  return page;
}

}  // namespace

Outcome<HttpResponse> get_response(std::string_view target, const RequestContext& context) {
  const auto stream = query_value(target, "stream");
  if (stream && *stream != "false")
    return bad_field("stream", "{} is not supported; expected \"false\"", shown(Json(*stream)));
  const std::string id = id_of(target);
  auto text = context.dialogs->response(id, context.key);
  if (!text) return not_kept(id);
  return kept_answer(*std::move(text));
}

Outcome<HttpResponse> delete_response(std::string_view target, const RequestContext& context) {
  const std::string id = id_of(target);
  if (!context.dialogs->erase(id, context.key)) return not_kept(id);
  return kept_answer(Json{{"id", id}, {"object", "response"}, {"deleted", true}}.dump());
}

Outcome<HttpResponse> list_input_items(std::string_view target, const RequestContext& context) {
  const auto page = read_page(target);
  if (!page) return tl::unexpected<ApiError>(page.error());
  const std::string id = id_of(target);
  const auto messages = context.dialogs->messages(id, context.key);
  if (!messages) return not_kept(id);
  ItemList list(id);
  // The last message is the response itself.
  for (std::size_t i = 0; i + 1 < messages->size(); ++i) list.add((*messages)[i]);
  std::vector<Json> items = list.take();
  if (page->newest_first) std::reverse(items.begin(), items.end());
  auto begin = items.begin();
  if (page->after) {
    begin = std::find_if(begin, items.end(),
                         [&](const Json& item) { return item.at("id") == *page->after; });
    if (begin == items.end())
      return bad_field("after", "{} is none of the items' ids", shown(Json(*page->after)));
    ++begin;
  }
  const auto left = static_cast<std::size_t>(items.end() - begin);
  const auto end = begin + static_cast<std::ptrdiff_t>(std::min(page->limit, left));
  Json data = Json::array();
  for (auto at = begin; at != end; ++at) data.push_back(std::move(*at));
  Json out;
  out["object"] = "list";
  out["first_id"] = data.empty() ? Json() : data.front().at("id");
  out["last_id"] = data.empty() ? Json() : data.back().at("id");
  out["has_more"] = end != items.end();
  out["data"] = std::move(data);
  return kept_answer(out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace dovetail::serve
