#include "serve/request_target.h"

#include <algorithm>
#include <charconv>

namespace dovetail::serve {
namespace {

constexpr std::string_view kVersionPrefix = "/v1";

}  // namespace

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string_view bare_path(std::string_view target) {
  std::string_view path = path_of(target);
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with(kVersionPrefix) && path.substr(kVersionPrefix.size()).starts_with('/'))
    path.remove_prefix(kVersionPrefix.size());
  return path;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    if (text[at] == '%' && at + 2 < text.size()) {
      const char* digits = text.data() + at + 1;
      const auto [end, failure] = std::from_chars(digits, digits + 2, value, 16);
      if (failure == std::errc() && end == digits + 2) {
        out += static_cast<char>(value);
        at += 2;
        continue;
      }
    }
    out += text[at];
  }
  return out;
}

std::optional<std::string> query_value(std::string_view target, std::string_view name) {
  std::string_view rest = target.substr(std::min(path_of(target).size(), target.size()));
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size());
    const std::size_t equals = pair.find('=');
    if (percent_decoded(pair.substr(0, equals)) != name) continue;
    return equals == std::string_view::npos ? std::string()
                                            : percent_decoded(pair.substr(equals + 1));
  }
  return std::nullopt;
}

}  // namespace dovetail::serve
