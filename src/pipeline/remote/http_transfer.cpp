#include "pipeline/remote/http_transfer.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

namespace dovetail::pipeline {

namespace {

constexpr std::size_t kMostHeaderBytes = 64 * 1024;
constexpr Micros kLongestWait = 24 * 3600 * kOneSecond;

TransportError kind_of(CURLcode code, bool sent) {
  switch (code) {
    case CURLE_OK:
      return TransportError::kNone;
    case CURLE_URL_MALFORMAT:
      return TransportError::kInvalid;
    case CURLE_UNSUPPORTED_PROTOCOL:  // of the URL, or of what came back
      return sent ? TransportError::kProtocol : TransportError::kInvalid;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return TransportError::kResolve;
    case CURLE_COULDNT_CONNECT:
      return TransportError::kConnect;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
      return TransportError::kTls;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return TransportError::kUntrusted;
    case CURLE_OPERATION_TIMEDOUT:
      return sent ? TransportError::kTimeout : TransportError::kConnectTimeout;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2_STREAM:
      return TransportError::kDropped;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_BAD_CONTENT_ENCODING:
      return TransportError::kProtocol;
    default:
      return TransportError::kOther;
  }
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// A header line must stay one: a value with a line break would smuggle in another header.
bool is_one_line(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

long milliseconds(Micros span) {
  return static_cast<long>(std::clamp<Micros>((span + 999) / 1000, 1, kLongestWait / 1000));
}

std::optional<Micros> retry_after_of(const HttpResult& answer, CURL* easy) {
  const std::string_view exact = answer.header("retry-after-ms");
  std::int64_t ms = 0;
  const auto [end, problem] = std::from_chars(exact.data(), exact.data() + exact.size(), ms);
  if (!exact.empty() && problem == std::errc() && end == exact.data() + exact.size() && ms >= 0) {
    return std::min(ms, kLongestWait / 1000) * 1000;
  }
  if (answer.header("retry-after").empty()) return std::nullopt;
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK) return std::nullopt;
  return std::clamp<Micros>(seconds, 0, kLongestWait / kOneSecond) * kOneSecond;
}

int version_number(long version) {
  switch (version) {
    case CURL_HTTP_VERSION_1_0:
      return 10;
    case CURL_HTTP_VERSION_1_1:
      return 11;
    case CURL_HTTP_VERSION_2_0:
      return 20;
    default:
      return 0;
  }
}

}  // namespace

Transfer::Transfer(HttpClient::RequestId id, HttpRequest request, HttpClient::Callback done,
                   Micros submitted)
    : id_(id), request_(std::move(request)), done_(std::move(done)), submitted_(submitted) {}

bool Transfer::start(EasyHandle easy, const HttpClientOptions& options, Micros now) {
  easy_ = std::move(easy);
  started_ = now;
  CURL* handle = easy_.get();
  if (!is_one_line(request_.url) || !is_one_line(request_.method) || request_.method.empty() ||
      !set_headers()) {
    return false;
  }
  curl_easy_setopt(handle, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  // The first requests to a TLS server wait to learn whether one connection can carry them all.
  const bool secure = request_.url.starts_with("https");
  curl_easy_setopt(handle, CURLOPT_PIPEWAIT, secure ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, error_text_.data());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers_.get());
  if (!options.ca_file.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, options.ca_file.c_str());
  }
  if (request_.method == "GET") {
    curl_easy_setopt(handle, CURLOPT_HTTPGET, 1L);
  } else {
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request_.body.data());
    if (request_.method != "POST") {
      curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    }
  }
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, this);
  set_timeouts(now);
  return true;
}

bool Transfer::set_headers() {
  // curl would wait a second for "100 Continue" before it sends a large body.
  headers_.reset(curl_slist_append(nullptr, "Expect:"));
  for (const auto& [name, value] : request_.headers) {
    const bool odd_name = name.empty() || name.find(':') != std::string::npos;
    if (odd_name || !is_one_line(name) || !is_one_line(value)) return false;
    const std::string line = value.empty() ? name + ";" : name + ": " + value;
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) return false;
    static_cast<void>(headers_.release());
    headers_.reset(longer);
  }
  return true;
}

void Transfer::set_timeouts(Micros now) {
  const HttpTimeouts& timeouts = request_.timeouts;
  CURL* handle = easy_.get();
  if (timeouts.connect > 0) {
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(timeouts.connect));
  }
  if (timeouts.total > 0) {
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(timeouts.total - (now - submitted_)));
  }
  if (timeouts.slow > 0) {
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, timeouts.slow_bytes);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME,
                     std::max(1L, milliseconds(timeouts.slow) / 1000));
  }
}

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  if (bytes > transfer.request_.max_response - transfer.answer_.body.size()) {
    transfer.too_large_ = "the answer's body is longer than the request allows";
    return 0;
  }
  try {
    transfer.answer_.body.append(data, bytes);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return bytes;
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  const std::string_view line = trimmed({data, bytes});
  // A proxy's answer, or "100 Continue", came before the one that counts.
  if (line.starts_with("HTTP/")) transfer.answer_.headers.clear();
  transfer.header_bytes_ += bytes;
  if (transfer.header_bytes_ > kMostHeaderBytes) {
    transfer.too_large_ = "the answer's headers are longer than 64 KiB";
    return 0;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  transfer.answer_.headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
  return bytes;
}

HttpResult Transfer::result(CURLcode code, Micros now) {
  if (code != CURLE_OK) {
    if (!too_large_.empty()) return failure(TransportError::kTooLarge, too_large_, now);
    long sent = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_REQUEST_SIZE, &sent);
    const Micros total = request_.timeouts.total;
    if (code == CURLE_OPERATION_TIMEDOUT && total > 0 && now - submitted_ >= total) {
      // curl says what was left of it when the transfer began, and how it rounds.
      const std::string why = fmt::format("no whole answer within the timeout of {:g} s",
                                          static_cast<double>(total) / kOneSecond);
      return failure(kind_of(code, sent > 0), why, now);
    }
    const std::string_view detail =
        error_text_[0] != 0 ? std::string_view(error_text_.data()) : curl_easy_strerror(code);
    return failure(kind_of(code, sent > 0), trimmed(detail), now);
  }
  long status = 0;
  long version = 0;
  long connections = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy_.get(), CURLINFO_HTTP_VERSION, &version);
  curl_easy_getinfo(easy_.get(), CURLINFO_NUM_CONNECTS, &connections);
  answer_.status = static_cast<int>(status);
  answer_.http_version = version_number(version);
  answer_.fresh_connection = connections > 0;
  answer_.retry_after = retry_after_of(answer_, easy_.get());
  answer_.latency = now - submitted_;
  answer_.on_wire = now - started_;
  return std::move(answer_);
}

HttpResult Transfer::failure(TransportError error, std::string_view why, Micros now) {
  HttpResult result;
  result.error = error;
  result.message = redact(fmt::format("{} {}: {}", request_.method, public_url(request_.url), why),
                          secrets_of(request_));
  result.latency = now - submitted_;
  result.on_wire = started_ > 0 ? now - started_ : 0;
  return result;
}

}  // namespace dovetail::pipeline
