#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <utility>

#include "dovetail/server.h"

namespace dovetail {

using boost::asio::ip::tcp;

Result<BoundAddress> BoundAddress::bind(const ServerOptions& options) {
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
  bound.is_v6_ = endpoint.address().is_v6();
  bound.is_loopback_ = endpoint.address().is_loopback();
  bound.socket_ = acceptor.release(failure);
  if (failure) return fail(ErrorKind::kIo, "cannot hand over a socket: {}", failure.message());
  return bound;
}

BoundAddress::BoundAddress(BoundAddress&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      is_v6_(other.is_v6_),
      is_loopback_(other.is_loopback_) {}

BoundAddress& BoundAddress::operator=(BoundAddress&& other) noexcept {
  std::swap(socket_, other.socket_);
  is_v6_ = other.is_v6_;
  is_loopback_ = other.is_loopback_;
  return *this;
}

BoundAddress::~BoundAddress() {
  if (socket_ >= 0) ::close(socket_);
}

int BoundAddress::release() { return std::exchange(socket_, -1); }

}  // namespace dovetail
