#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <utility>

#include "serve/http_framing.h"

namespace dovetail::serve {
namespace {

namespace http = boost::beast::http;
using HeadParser = http::request_parser<http::empty_body>;

std::string text_of(boost::beast::string_view view) { return {view.data(), view.size()}; }

tl::unexpected<ApiError> bad_head(std::string_view what) {
  ApiError error;
  error.code = "bad_http";
  error.message = fmt::format("not a valid HTTP/1.1 request: {}", what);
  return tl::unexpected<ApiError>(std::move(error));
}

bool all_of(std::string_view text, std::string_view allowed) {
  return std::all_of(text.begin(), text.end(), [allowed](unsigned char c) {
    return std::isalnum(c) != 0 || allowed.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// "http://host/path" becomes "/path", and the authority is what comes back; nothing where the
// target is in another form.
std::optional<std::string> take_authority(std::string& target) {
  const std::size_t colon = target.find("://");
  if (colon == std::string::npos || target.front() == '/') return std::nullopt;
  const std::string scheme = target.substr(0, colon);
  if (!boost::beast::iequals(scheme, "http") && !boost::beast::iequals(scheme, "https")) {
    return std::nullopt;
  }
  const std::size_t begin = colon + 3;
  const std::size_t end = std::min(target.find_first_of("/?", begin), target.size());
  std::string authority = target.substr(begin, end - begin);
  target.erase(0, end);
  if (target.empty() || target.front() == '?') target.insert(0, "/");
  return authority;
}

}  // namespace

std::optional<std::string> host_name(std::string_view authority) {
  const bool bracketed = authority.starts_with('[');
  std::size_t end = authority.find(bracketed ? ']' : ':');
  if (bracketed) {
    if (end == std::string_view::npos) return std::nullopt;
    ++end;
  }
  std::string name(authority.substr(0, end));
  const std::string_view port =
      end < authority.size() ? authority.substr(end) : std::string_view(":");
  const bool is_port = port.front() == ':' && std::all_of(port.begin() + 1, port.end(), [](char c) {
                         return c >= '0' && c <= '9';
                       });
  if (!is_port) return std::nullopt;
  const std::string_view inner =
      bracketed ? std::string_view(name).substr(1, name.size() - 2) : std::string_view(name);
  if (!all_of(inner, bracketed ? ":." : "-._~%!$&'()*+,;=")) return std::nullopt;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

Outcome<HttpHead> parse_head(std::string_view text) {
  HeadParser parser;
  parser.header_limit(UINT32_MAX);  // the scanner has bounded it
  parser.body_limit(boost::none);   // judged by the router, where the response can say so
  boost::system::error_code failure;
  const std::size_t used = parser.put(boost::asio::buffer(text.data(), text.size()), failure);
  if (failure) return bad_head(failure.message());
  if (!parser.is_header_done() || used != text.size()) return bad_head("its head has no clear end");

  const auto& request = parser.get();
  HttpHead head;
  head.method = text_of(request.method_string());
  head.target = text_of(request.target());
  head.keep_alive = request.keep_alive();
  head.http_1_0 = request.version() < 11;
  head.authorization = text_of(request[http::field::authorization]);
  head.content_type = text_of(request[http::field::content_type]);
  head.content_encoding = text_of(request[http::field::content_encoding]);
  head.api_key = text_of(request["X-Api-Key"]);
  head.origin = text_of(request[http::field::origin]);
  head.request_id = text_of(request["X-Request-Id"]);
  constexpr std::size_t kLongestId = 128;
  const bool visible = std::all_of(head.request_id.begin(), head.request_id.end(),
                                   [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!visible || head.request_id.size() > kLongestId) head.request_id.clear();
  head.expects_continue = boost::beast::iequals(request[http::field::expect], "100-continue");
  if (const auto length = parser.content_length()) head.content_length = *length;

  const auto codings = request.equal_range(http::field::transfer_encoding);
  if (codings.first != codings.second) {
    const auto coding = codings.first->value();
    if (std::next(codings.first) != codings.second || !boost::beast::iequals(coding, "chunked")) {
      ApiError error;
      error.status = 501;
      error.code = "unsupported_transfer_encoding";
      error.message = fmt::format("Transfer-Encoding is \"{}\"; expected \"chunked\" or none",
                                  text_of(coding).substr(0, 100));
      return tl::unexpected<ApiError>(std::move(error));
    }
    if (head.http_1_0) return bad_head("HTTP/1.0 has no Transfer-Encoding");
    head.chunked = true;
  }

  const auto hosts = request.equal_range(http::field::host);
  const auto host_count = std::distance(hosts.first, hosts.second);
  if (host_count > 1) return bad_head("more than one Host header; expected one");
  if (host_count == 0 && !head.http_1_0) return bad_head("no Host header; expected one");
  const std::optional<std::string> authority = take_authority(head.target);
  if (authority) {
    head.host = host_name(*authority);  // the header does not count then
    if (!head.host || head.host->empty()) return bad_head("a target without a valid host");
  } else if (host_count == 1) {
    head.host = host_name(text_of(hosts.first->value()));
    if (!head.host) {
      return bad_head(fmt::format("Host is \"{}\"; expected a name or address, and a port if any",
                                  text_of(hosts.first->value()).substr(0, 100)));
    }
  }
  return head;
}

}  // namespace dovetail::serve
