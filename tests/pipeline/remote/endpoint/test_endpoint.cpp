#include "pipeline/remote/endpoint/test_endpoint.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>

namespace dovetail::pipeline {

namespace {

using Clock = std::chrono::steady_clock;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Takes the first whole request off the input; false where it is not all there yet.
bool take_request(std::string& input, TestRequest& request) {
  const std::size_t head = input.find("\r\n\r\n");
  if (head == std::string::npos) return false;
  const std::string_view all(input);
  const std::string_view line = all.substr(0, all.find("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', first + 1);
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, second - first - 1);
  std::size_t length = 0;
  for (std::size_t at = line.size() + 2; at < head;) {
    const std::size_t end = all.find("\r\n", at);
    const std::string_view field = all.substr(at, end - at);
    const std::size_t colon = field.find(':');
    std::string_view value = field.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    const std::string name = lower(field.substr(0, colon));
    if (name == "content-length")
      std::from_chars(value.data(), value.data() + value.size(), length);
    request.headers[name] = value;
    at = end + 2;
  }
  if (input.size() < head + 4 + length) return false;
  request.body = input.substr(head + 4, length);
  input.erase(0, head + 4 + length);
  return true;
}

std::string chunk(std::string_view data) {
  return data.empty() ? std::string() : fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

// The reply as the pieces it is sent in.
std::vector<std::string> pieces_of(const TestReply& reply) {
  if (reply.bytes) return {*reply.bytes};
  std::string head = fmt::format("HTTP/1.1 {} Scripted\r\n", reply.status);
  for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
  head += reply.chunked ? "Transfer-Encoding: chunked\r\n\r\n"
                        : fmt::format("Content-Length: {}\r\n\r\n", reply.body.size());
  std::vector<std::string> pieces = {std::move(head)};
  const std::size_t step =
      reply.piece == 0 ? std::max<std::size_t>(1, reply.body.size()) : reply.piece;
  for (std::size_t at = 0; at < reply.body.size(); at += step) {
    const std::string_view part = std::string_view(reply.body).substr(at, step);
    if (at == 0) {
      pieces.back() += reply.chunked ? chunk(part) : std::string(part);
    } else {
      pieces.push_back(reply.chunked ? chunk(part) : std::string(part));
    }
  }
  if (reply.chunked) pieces.back() += "0\r\n\r\n";
  return pieces;
}

}  // namespace

class TestEndpoint::Server {
 public:
  explicit Server(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (::bind(listener_, raw, size) != 0 || ::listen(listener_, 4096) != 0 ||
        ::getsockname(listener_, raw, &size) != 0 || epoll_ < 0 || wake_ < 0) {
      std::abort();
    }
    port = ntohs(address.sin_port);
    watch(listener_, EPOLLIN);
    watch(wake_, EPOLLIN);
    thread_ = std::thread([this] { run(); });
  }

  ~Server() {
    stop_ = true;
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_, &one, sizeof one));
    thread_.join();
    for (const auto& [id, connection] : connections_) ::close(connection.socket);
    ::close(listener_);
    ::close(epoll_);
    ::close(wake_);
  }

  double cpu_seconds() {
    clockid_t clock{};
    timespec used{};
    if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return 0;
    ::clock_gettime(clock, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }

  std::uint16_t port = 0;
  std::atomic<std::int64_t> requests{0};
  std::atomic<int> opened{0};
  std::atomic<int> in_flight{0};
  std::atomic<int> most_in_flight{0};

 private:
  struct Connection {
    int number = 0;
    int socket = -1;
    std::string input;
    std::string output;
    bool busy = false;  // a request has no full answer yet
    bool waits_to_write = false;
    bool close_when_sent = false;
  };
  struct Sending {
    std::vector<std::string> pieces;
    std::size_t next = 0;
    std::chrono::microseconds pause{0};
    bool close_after = false;
  };
  struct Timer {
    Clock::time_point at;
    std::int64_t order;
    int connection;
    std::shared_ptr<Sending> sending;
    bool operator>(const Timer& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void watch(int descriptor, std::uint32_t events, int operation = EPOLL_CTL_ADD, int id = -1) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(id)) << 32U) |
                     static_cast<std::uint32_t>(descriptor);
    ::epoll_ctl(epoll_, operation, descriptor, &event);
  }

  void run() {
    std::array<epoll_event, 256> events{};
    while (!stop_) {
      const int count = ::epoll_wait(epoll_, events.data(), 256, wait_milliseconds());
      for (int i = 0; i < count; ++i) {
        const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
        const int descriptor = static_cast<int>(data & 0xffffffffU);
        if (descriptor == listener_) {
          accept_all();
        } else if (descriptor != wake_) {
          serve(static_cast<int>(data >> 32U));
        }
      }
      while (!timers_.empty() && timers_.top().at <= Clock::now()) {
        const Timer timer = timers_.top();
        timers_.pop();
        send_next(timer.connection, timer.sending);
      }
    }
  }

  int wait_milliseconds() const {
    if (timers_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.top().at - Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }

  void accept_all() {
    for (;;) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) return;
      const int yes = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      const int number = opened++;
      Connection& connection = connections_[number];
      connection.number = number;
      connection.socket = socket;
      watch(socket, EPOLLIN, EPOLL_CTL_ADD, number);
    }
  }

  void serve(int number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    if (!flush(connection)) return;
    std::array<char, 65536> buffer{};
    for (;;) {
      const ssize_t got = ::recv(connection.socket, buffer.data(), buffer.size(), 0);
      if (got > 0) {
        connection.input.append(buffer.data(), static_cast<std::size_t>(got));
        if (static_cast<std::size_t>(got) == buffer.size()) continue;
        break;
      }
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      close_connection(number);
      return;
    }
    next_request(connection);
  }

  void next_request(Connection& connection) {
    TestRequest request;
    if (connection.input.starts_with('\x16')) {  // a TLS hello
      connection.input.clear();
      connection.output = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
      connection.close_when_sent = true;
      flush(connection);
      return;
    }
    if (connection.busy || !take_request(connection.input, request)) return;
    connection.busy = true;
    request.number = requests++;
    request.connection = connection.number;
    request.in_flight = ++in_flight;
    most_in_flight = std::max(most_in_flight.load(), request.in_flight);
    const TestReply reply = script_(request);
    if (reply.silent) return;
    auto sending = std::make_shared<Sending>();
    sending->pieces = pieces_of(reply);
    sending->pause = reply.pause;
    sending->close_after = reply.bytes.has_value();
    if (reply.drop_after) {
      std::size_t left = *reply.drop_after;
      for (std::string& piece : sending->pieces) {
        piece.resize(std::min(left, piece.size()));
        left -= piece.size();
      }
      sending->close_after = true;
    }
    if (reply.delay.count() == 0) {
      send_next(connection.number, sending);
    } else {
      timers_.push({Clock::now() + reply.delay, order_++, connection.number, std::move(sending)});
    }
  }

  void send_next(int number, const std::shared_ptr<Sending>& sending) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    do {
      connection.output += sending->pieces[sending->next++];
    } while (sending->next < sending->pieces.size() && sending->pause.count() == 0);
    if (sending->next < sending->pieces.size()) {
      if (!flush(connection)) return;
      timers_.push({Clock::now() + sending->pause, order_++, number, sending});
      return;
    }
    connection.close_when_sent = sending->close_after;
    // Not in flight once the client may have its last byte: it may send the next one by then.
    connection.busy = false;
    --in_flight;
    if (flush(connection)) next_request(connection);
  }

  // False where the connection is gone after it.
  bool flush(Connection& connection) {
    while (!connection.output.empty()) {
      const ssize_t sent = ::send(connection.socket, connection.output.data(),
                                  connection.output.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          close_connection(connection.number);
          return false;
        }
        if (!connection.waits_to_write) {
          connection.waits_to_write = true;
          watch(connection.socket, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD, connection.number);
        }
        return true;
      }
      connection.output.erase(0, static_cast<std::size_t>(sent));
    }
    if (connection.waits_to_write) {
      connection.waits_to_write = false;
      watch(connection.socket, EPOLLIN, EPOLL_CTL_MOD, connection.number);
    }
    if (!connection.close_when_sent) return true;
    close_connection(connection.number);
    return false;
  }

  void close_connection(int number) {
    const auto found = connections_.find(number);
    if (found->second.busy) --in_flight;
    ::close(found->second.socket);
    connections_.erase(found);
  }

  Script script_;
  int listener_ = -1;
  int epoll_ = -1;
  int wake_ = -1;
  std::atomic<bool> stop_{false};
  std::unordered_map<int, Connection> connections_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::int64_t order_ = 0;
  std::thread thread_;
};

TestEndpoint::TestEndpoint(Script script) : server_(std::make_unique<Server>(std::move(script))) {}
TestEndpoint::~TestEndpoint() = default;

std::uint16_t TestEndpoint::port() const { return server_->port; }
std::string TestEndpoint::url(std::string_view path) const {
  return fmt::format("http://127.0.0.1:{}{}", port(), path);
}
std::int64_t TestEndpoint::requests() const { return server_->requests; }
int TestEndpoint::connections() const { return server_->opened; }
int TestEndpoint::in_flight() const { return server_->in_flight; }
int TestEndpoint::most_in_flight() const { return server_->most_in_flight; }
double TestEndpoint::cpu_seconds() const { return server_->cpu_seconds(); }

TestReply chat_reply(std::string_view content, int prompt_tokens, int completion_tokens) {
  const nlohmann::json body = {{"id", "chatcmpl-test"},
                               {"object", "chat.completion"},
                               {"model", "test"},
                               {"choices",
                                {{{"index", 0},
                                  {"message", {{"role", "assistant"}, {"content", content}}},
                                  {"finish_reason", "stop"}}}},
                               {"usage",
                                {{"prompt_tokens", prompt_tokens},
                                 {"completion_tokens", completion_tokens},
                                 {"total_tokens", prompt_tokens + completion_tokens}}}};
  TestReply reply;
  reply.headers = {{"Content-Type", "application/json"}};
  reply.body = body.dump();
  return reply;
}

TestReply error_reply(int status, std::string_view message, std::string_view code,
                      std::optional<int> retry_after) {
  nlohmann::json error = {{"message", message}, {"type", "test_error"}, {"param", nullptr}};
  error["code"] = code.empty() ? nlohmann::json() : nlohmann::json(code);
  TestReply reply;
  reply.status = status;
  reply.headers = {{"Content-Type", "application/json"}};
  if (retry_after) reply.headers.emplace_back("Retry-After", std::to_string(*retry_after));
  reply.body = nlohmann::json{{"error", error}}.dump();
  return reply;
}

TestEndpoint::Script refusing_above(int room, std::chrono::microseconds latency,
                                    std::string content) {
  return [=](const TestRequest& request) {
    if (request.in_flight > room) return error_reply(429, "too many requests in flight");
    TestReply reply = chat_reply(content);
    reply.delay = latency;
    return reply;
  };
}

std::string last_message(const TestRequest& request) {
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  if (!body.is_object() || !body.contains("messages")) return "";
  const auto& messages = body["messages"];
  if (!messages.is_array() || messages.empty()) return "";
  const auto& content = messages.back().value("content", nlohmann::json());
  return content.is_string() ? content.get<std::string>() : "";
}

}  // namespace dovetail::pipeline
