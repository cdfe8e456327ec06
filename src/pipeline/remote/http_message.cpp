#include "pipeline/remote/http_message.h"

#include <algorithm>
#include <array>

namespace dovetail::pipeline {

namespace {

// Shorter values would hide half of an ordinary sentence, and protect nobody.
constexpr std::size_t kShortestSecret = 4;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string_view HttpResult::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

bool is_secret_header(std::string_view name) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  constexpr std::array<std::string_view, 5> kMarks = {"auth", "key", "token", "secret", "cookie"};
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](std::string_view mark) { return small.find(mark) != std::string::npos; });
}

std::vector<std::string> secrets_of(const HttpRequest& request) {
  std::vector<std::string> secrets;
  for (const auto& [name, value] : request.headers) {
    if (!is_secret_header(name)) continue;
    secrets.push_back(value);
    const std::size_t space = value.find(' ');
    if (space != std::string::npos) secrets.push_back(value.substr(space + 1));
  }
  return secrets;
}

std::string redact(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    if (secret.size() < kShortestSecret) continue;
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), "***");
      at += 3;
    }
  }
  return text;
}

std::string public_url(std::string_view url) {
  std::string_view rest = url.substr(0, url.find_first_of("?#"));
  const std::size_t scheme = rest.find("://");
  const std::size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t path = std::min(rest.find('/', host), rest.size());
  const std::size_t at = rest.substr(0, path).rfind('@');
  if (at == std::string_view::npos || at < host) return std::string(rest);
  return std::string(rest.substr(0, host)) + std::string(rest.substr(at + 1));
}

}  // namespace dovetail::pipeline
