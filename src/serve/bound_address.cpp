#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <utility>

#include "dovetail/server.h"
#include "serve/socket_file.h"

namespace dovetail {

using boost::asio::ip::tcp;

Result<BoundAddress> BoundAddress::bind(const ServerOptions& options) {
  if (!options.unix_socket.empty()) {
    constexpr std::uint32_t kMostRights = 0777;
    if (options.unix_socket_mode > kMostRights) {
      return fail(ErrorKind::kInvalid, "unix_socket_mode is {:o}; expected 0 to {:o}, in octal",
                  options.unix_socket_mode, kMostRights);
    }
    Result<serve::SocketFile> file =
        serve::SocketFile::bind(options.unix_socket, options.unix_socket_mode);
    if (!file) return fail(file.error());
    BoundAddress local;
    local.family_ = AF_UNIX;
    local.socket_ = file->release();
    local.file_ = std::make_unique<serve::SocketFile>(*std::move(file));
    return local;
  }
  boost::system::error_code failure;
  boost::asio::io_context io;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, failure);
  if (failure || found.empty()) {
    return fail(ErrorKind::kIo, "host {}: cannot be resolved: {}", options.host, failure.message());
  }
  // Clients that are given a name of both kinds (localhost) come by either; more know IPv4.
  const auto v4 = std::find_if(found.begin(), found.end(), [](const auto& entry) {
    return entry.endpoint().address().is_v4();
  });
  const tcp::endpoint endpoint = (v4 == found.end() ? found.begin() : v4)->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  if (failure) {
    return fail(ErrorKind::kIo, "cannot listen on {} port {}: {}", options.host, options.port,
                failure.message());
  }
  BoundAddress bound;
  bound.family_ = endpoint.protocol().family();
  bound.is_loopback_ = endpoint.address().is_loopback();
  bound.socket_ = acceptor.release(failure);
  if (failure) return fail(ErrorKind::kIo, "cannot hand over a socket: {}", failure.message());
  return bound;
}

BoundAddress::BoundAddress() = default;

BoundAddress::BoundAddress(BoundAddress&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      family_(other.family_),
      is_loopback_(other.is_loopback_),
      file_(std::move(other.file_)) {}

BoundAddress& BoundAddress::operator=(BoundAddress&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(file_, other.file_);
  family_ = other.family_;
  is_loopback_ = other.is_loopback_;
  return *this;
}

BoundAddress::~BoundAddress() {
  file_.reset();  // before the socket is free for another program
  if (socket_ >= 0) ::close(socket_);
}

int BoundAddress::release() { return std::exchange(socket_, -1); }

std::unique_ptr<serve::SocketFile> BoundAddress::release_file() { return std::move(file_); }

}  // namespace dovetail
