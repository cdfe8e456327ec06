#pragma once

#include <curl/curl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "pipeline/remote/http_client.h"

namespace dovetail::pipeline {

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using EasyHandle = std::unique_ptr<CURL, FreeEasy>;
using MultiHandle = std::unique_ptr<CURLM, FreeMulti>;
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

// One request on its way: the handle that curl works on, and all memory that curl points into.
// Does not move while curl has the handle.
class Transfer {
 public:
  Transfer(HttpClient::RequestId id, HttpRequest request, HttpClient::Callback done,
           Micros submitted);

  // Sets `easy` up for the request; false where the request itself is not possible.
  bool start(EasyHandle easy, const HttpClientOptions& options, Micros now);

  // What became of it. `code` is curl's; call once, after the handle has left the multi handle.
  HttpResult result(CURLcode code, Micros now);

  // The result of a request that curl did not finish.
  HttpResult failure(TransportError error, std::string_view why, Micros now);

  void finish(HttpResult result) { done_(std::move(result)); }

  HttpClient::RequestId id() const { return id_; }
  CURL* easy() const { return easy_.get(); }
  EasyHandle take_easy() { return std::move(easy_); }

 private:
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  bool set_headers();
  void set_timeouts(Micros now);

  HttpClient::RequestId id_;
  HttpRequest request_;
  HttpClient::Callback done_;
  Micros submitted_;
  Micros started_ = 0;
  EasyHandle easy_;
  HeaderList headers_;
  HttpResult answer_;
  std::size_t header_bytes_ = 0;
  std::string_view too_large_;  // which part of the answer was
  std::array<char, CURL_ERROR_SIZE> error_text_{};
};

}  // namespace dovetail::pipeline
