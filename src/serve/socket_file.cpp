#include "serve/socket_file.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/descriptor.h"

namespace dovetail::serve {
namespace {

constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kLongestPath);
  return address;
}

template <class Function>
int with_address(Function function, int socket, const sockaddr_un& address) {
  return function(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

// Whether a process has a socket of this path, be it that it does not listen yet: then it refuses
// connections as one does whose process has ended.
bool is_bound(const std::string& path) {
  // "ffff...: 00000002 00000000 00010000 0001 01 12345 /run/a.sock"; there is none without /proc.
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.ends_with(" " + path)) return true;
  return false;
}

// Makes room for a socket where bind() found something.
Status remove_left(const std::string& path, const sockaddr_un& address) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return {};
    return fail(ErrorKind::kIo, "socket {}: {}", path, std::strerror(errno));
  }
  if (!S_ISSOCK(found.st_mode)) {
    return fail(ErrorKind::kIo,
                "socket {}: a file that is no socket is there; expected a path that is free, or a "
                "socket that a program left",
                path);
  }
  const Descriptor probe(new_socket());
  const bool refused = with_address(::connect, probe.get(), address) != 0 && errno == ECONNREFUSED;
  if (!refused || is_bound(path)) {
    return fail(ErrorKind::kIo,
                "socket {}: another program has it; expected a path that is free, or a socket that "
                "a program left",
                path);
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(ErrorKind::kIo,
                "socket {}: it is left of another program and cannot be removed: {}", path,
                std::strerror(errno));
  }
  return {};
}

}  // namespace

Result<SocketFile> SocketFile::bind(const std::string& path, std::uint32_t mode) {
  if (path.empty() || path.size() > kLongestPath || path.find('\0') != std::string::npos) {
    return fail(ErrorKind::kInvalid, "socket {}: the path has {} bytes; expected 1 to {}", path,
                path.size(), kLongestPath);
  }
  const sockaddr_un address = address_of(path);
  Descriptor socket(new_socket());
  // The file gets the mode of its socket, so that at no time anybody else may connect.
  if (socket.get() < 0 || ::fchmod(socket.get(), mode) != 0)
    return fail(ErrorKind::kIo, "socket {}: {}", path, std::strerror(errno));
  int failed = with_address(::bind, socket.get(), address);
  if (failed != 0 && errno == EADDRINUSE) {
    if (const Status free = remove_left(path, address); !free) return fail(free.error());
    failed = with_address(::bind, socket.get(), address);
  }
  if (failed != 0) return fail(ErrorKind::kIo, "socket {}: {}", path, std::strerror(errno));
  SocketFile file(path, socket.release());
  struct stat made = {};
  // Where the umask takes rights that were asked for.
  if (::chmod(path.c_str(), mode) != 0 || ::lstat(path.c_str(), &made) != 0)
    return fail(ErrorKind::kIo, "socket {}: {}", path, std::strerror(errno));
  file.device_ = made.st_dev;
  file.file_ = made.st_ino;
  return file;
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      socket_(std::exchange(other.socket_, -1)),
      device_(other.device_),
      file_(other.file_) {}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(socket_, other.socket_);
  std::swap(device_, other.device_);
  std::swap(file_, other.file_);
  return *this;
}

SocketFile::~SocketFile() {
  remove();  // before the socket is free for another program
  if (socket_ >= 0) ::close(socket_);
}

int SocketFile::release() { return std::exchange(socket_, -1); }

void SocketFile::remove() {
  const std::string path = std::exchange(path_, {});
  struct stat found = {};
  const bool ours = !path.empty() && ::lstat(path.c_str(), &found) == 0 &&
                    found.st_dev == device_ && found.st_ino == file_;
  if (ours) ::unlink(path.c_str());
}

}  // namespace dovetail::serve
