#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace dovetail::serve {

// The file of a socket that programs of the same machine connect to, removed with this object where
// it is still the one that was made.
class SocketFile {
 public:
  // Binds a new socket to `path`; connections are refused until the server listens on it. A socket
  // that a program left there when it ended is replaced. `mode`: who may connect, from the first
  // moment on. Errors name the path: it is empty or too long, another program has the socket, or
  // what is there is something else.
  static Result<SocketFile> bind(const std::string& path, std::uint32_t mode);

  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&& other) noexcept;
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile();

  int release();  // the socket, which is the caller's from now on; once
  void remove();  // the file, now

 private:
  SocketFile(std::string path, int socket) : path_(std::move(path)), socket_(socket) {}

  std::string path_;  // empty: removed
  int socket_ = -1;
  dev_t device_ = 0;
  ino_t file_ = 0;
};

}  // namespace dovetail::serve
