#include "serve/http_client.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

namespace dovetail::serve {

std::vector<std::string> ClientResponse::events() const {
  std::vector<std::string> found;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    const std::string line = body.substr(at, end - at);
    found.push_back(line.rfind("data: ", 0) == 0 ? line.substr(6) : "not an event: " + line);
    if (end == std::string::npos) break;
    at = end + 2;
  }
  return found;
}

Client::Client(std::uint16_t port, int receive_buffer) {
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  set_patience();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close();
  }
}

Client::Client(const std::string& unix_socket) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
  set_patience();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unix_socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close();
  }
}

void Client::set_patience() const {
  const timeval patience{10, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

Client::~Client() { close(); }

void Client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Client::finish_sending() { ::shutdown(socket_, SHUT_WR); }

void Client::reset() {
  const linger hard{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close();
}

bool Client::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

bool Client::fill() {
  char data[16384];
  const ssize_t size = ::recv(socket_, data, sizeof(data), 0);
  if (size <= 0) return false;
  buffer_.append(data, static_cast<std::size_t>(size));
  return true;
}

std::optional<std::string> Client::take_line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

bool Client::take(std::size_t size, std::string& to) {
  while (buffer_.size() < size) {
    if (!fill()) return false;
  }
  to.append(buffer_, 0, size);
  buffer_.erase(0, size);
  return true;
}

std::optional<ClientResponse> Client::receive(bool head_only) {
  ClientResponse response;
  const auto status = take_line();
  if (!status || status->size() < 12) return std::nullopt;
  response.status = std::stoi(status->substr(9, 3));
  while (true) {
    const auto line = take_line();
    if (!line) return std::nullopt;
    if (line->empty()) break;
    std::string name = line->substr(0, line->find(':'));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    response.headers[name] = line->substr(line->find(':') + 2);
  }
  if (head_only) return response;
  if (response.headers.count("transfer-encoding") != 0) {
    while (true) {
      const auto line = take_line();
      if (!line) return std::nullopt;
      const std::size_t size = std::stoul(*line, nullptr, 16);
      if (!take(size, response.body) || !take_line()) return std::nullopt;
      if (size == 0) return response;
    }
  }
  if (response.headers.count("content-length") != 0) {
    if (!take(std::stoul(response.headers["content-length"]), response.body)) return std::nullopt;
    return response;
  }
  while (fill()) {
  }
  response.body = std::exchange(buffer_, {});
  return response;
}

bool Client::receive_until(std::string_view until) {
  while (buffer_.find(until) == std::string::npos) {
    if (!fill()) return false;
  }
  return true;
}

bool Client::receive_end() {
  char data[16384];
  ssize_t size = 0;
  while ((size = ::recv(socket_, data, sizeof(data), 0)) > 0) {
  }
  return size == 0 || errno == ECONNRESET;
}

std::string post_text(std::string_view path, std::string_view body, std::string_view headers) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      path, body.size(), headers, body);
}

std::optional<ClientResponse> Client::post(std::string_view path, std::string_view body,
                                           std::string_view headers) {
  if (!send(post_text(path, body, headers))) return std::nullopt;
  return receive();
}

std::optional<ClientResponse> Client::get(std::string_view path, std::string_view headers) {
  if (!send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers))) {
    return std::nullopt;
  }
  return receive();
}

}  // namespace dovetail::serve
