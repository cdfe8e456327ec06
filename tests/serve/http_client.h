#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A line of a head, for texts that are whole requests.
#define JSON_TYPE "Content-Type: application/json\r\n"

namespace dovetail::serve {

struct ClientResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  // The data of each server-sent event.
  std::vector<std::string> events() const;
};

// A blocking HTTP client on a plain socket, which can also misbehave. Reads give up after ten
// seconds.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0);
  explicit Client(const std::string& unix_socket);  // a path
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view text);
  // One whole response; nothing if the connection ended before.
  std::optional<ClientResponse> receive(bool head_only = false);
  // The head, and then the body as it comes: at least until `until` appeared in it.
  bool receive_until(std::string_view until);
  // Reads to the end of the connection; false if it does not end in time.
  bool receive_end();
  void finish_sending();  // half-closes: the server sees the end, answers can still be read
  void close();
  void reset();  // closes with RST

  std::optional<ClientResponse> post(std::string_view path, std::string_view body,
                                     std::string_view headers = {});
  std::optional<ClientResponse> get(std::string_view path, std::string_view headers = {});

 private:
  void set_patience() const;
  bool fill();
  std::optional<std::string> take_line();
  bool take(std::size_t size, std::string& to);

  int socket_ = -1;
  std::string buffer_;
};

std::string post_text(std::string_view path, std::string_view body, std::string_view headers = {});

}  // namespace dovetail::serve
