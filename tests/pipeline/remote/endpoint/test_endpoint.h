#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// What the endpoint was sent.
struct TestRequest {
  std::int64_t number = 0;  // from 0, in the order of arrival
  int connection = 0;       // from 0, in the order of their opening
  int in_flight = 0;        // requests without their answer's last byte, this one included
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// What it says, and how badly.
struct TestReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::chrono::microseconds delay{0};  // before the first byte
  // Sends the body in pieces of so many bytes, with a pause before each but the first; 0: whole.
  std::size_t piece = 0;
  std::chrono::microseconds pause{0};
  bool chunked = false;  // with Transfer-Encoding: chunked (one chunk per piece), without a length
  // Closes the connection after so many bytes of the reply, head included.
  std::optional<std::size_t> drop_after;
  bool silent = false;               // never answers, and keeps the connection
  std::optional<std::string> bytes;  // sent as they are, instead of an HTTP reply, then closed
};

// A small HTTP/1.1 server on a free port of the loopback, on a thread of its own, that answers by a
// script. For tests alone: it believes its clients. Thousands of requests a second, hundreds at a
// time.
class TestEndpoint {
 public:
  // Called on the endpoint's thread, one request after the other.
  using Script = std::function<TestReply(const TestRequest&)>;

  explicit TestEndpoint(Script script);
  ~TestEndpoint();
  TestEndpoint(const TestEndpoint&) = delete;
  TestEndpoint& operator=(const TestEndpoint&) = delete;

  std::uint16_t port() const;
  // "http://127.0.0.1:PORT" and the path.
  std::string url(std::string_view path = "") const;

  // Counters so far; from any thread.
  std::int64_t requests() const;
  int connections() const;
  int in_flight() const;
  int most_in_flight() const;
  // Processor time of its thread.
  double cpu_seconds() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

// A chat completion of OpenAI's shape with one choice.
TestReply chat_reply(std::string_view content, int prompt_tokens = 10, int completion_tokens = 5);

// An error of OpenAI's shape. `retry_after` becomes the header of that name, in seconds.
TestReply error_reply(int status, std::string_view message, std::string_view code = "",
                      std::optional<int> retry_after = std::nullopt);

// Serves `room` requests at a time with the given latency and content, refuses the others with 429.
TestEndpoint::Script refusing_above(int room, std::chrono::microseconds latency,
                                    std::string content = "ok");

// The text of the last message of a chat request; empty where it has none.
std::string last_message(const TestRequest& request);

}  // namespace dovetail::pipeline
