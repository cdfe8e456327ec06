// A server on a socket in the file system: who may connect, what is replaced there, what is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class UnixSocket : public ::testing::Test {
 protected:
  UnixSocket() {
    std::string name = (fs::temp_directory_path() / "dovetail-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    path_ = (folder_ / "http.sock").string();
    options_.unix_socket = path_;
  }
  ~UnixSocket() override { fs::remove_all(folder_); }

  // What bind() says against the path.
  std::string refusal() const {
    const auto bound = BoundAddress::bind(options_);
    return bound ? "nothing" : bound.error().message;
  }
  mode_t mode() const {
    struct stat found = {};
    EXPECT_EQ(::lstat(path_.c_str(), &found), 0);
    EXPECT_TRUE(S_ISSOCK(found.st_mode));
    return found.st_mode & 07777U;
  }
  // A socket whose process has ended.
  void leave_a_socket() const {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::listen(socket, 1);
    ::close(socket);
  }

  fs::path folder_;
  std::string path_;
  ServerOptions options_;
};

TEST_F(UnixSocket, AnswersAsOverTcp) {
  RunningServer running(FakeEngine::counting, options_);
  ASSERT_NE(running.server, nullptr);
  EXPECT_EQ(running.server->url(), "unix:" + path_);
  EXPECT_EQ(running.server->port(), 0);
  Client client(path_);
  EXPECT_EQ(client.get("/health")->status, 200);
  EXPECT_EQ(client.post(kChat, kHello)->json()["usage"]["completion_tokens"], 3);
  const auto streamed = client.post(kChat, kStreamed);
  ASSERT_TRUE(streamed.has_value());
  EXPECT_EQ(streamed->events().back(), "[DONE]");
  // A proxy hands on the name that it was asked by.
  ASSERT_TRUE(client.send("GET /v1/models HTTP/1.1\r\nHost: llm.example.org\r\n\r\n"));
  EXPECT_EQ(client.receive()->status, 200);
  // Still, a page of another origin gets nothing through it.
  ASSERT_TRUE(
      client.send("POST /v1/completions HTTP/1.1\r\nHost: llm.example.org\r\n"
                  "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"));
  EXPECT_EQ(client.receive()->status, 415);
}

TEST_F(UnixSocket, AClientThatGoesIsNoticed) {
  RunningServer running(FakeEngine::silent, options_);
  {
    Client client(path_);
    ASSERT_TRUE(client.send(post_text(kChat, kStreamed)));
    ASSERT_TRUE(running.engine.wait_submitted(1));
  }
  EXPECT_TRUE(running.engine.wait_cancelled(1));
}

TEST_F(UnixSocket, AsksForTheKey) {
  options_.api_key = "secret";
  RunningServer running(FakeEngine::counting, options_);
  EXPECT_EQ(Client(path_).get("/v1/models")->status, 401);
  EXPECT_EQ(Client(path_).get("/v1/models", "X-Api-Key: secret\r\n")->status, 200);
}

TEST_F(UnixSocket, ItsFileHasTheModeAndGoesWithTheServer) {
  const mode_t before = ::umask(0077);
  {
    RunningServer running(FakeEngine::counting, options_);
    EXPECT_EQ(mode(), 0600U);
  }
  EXPECT_FALSE(fs::exists(path_));
  options_.unix_socket_mode = 0660;
  {
    RunningServer running(FakeEngine::counting, options_);
    EXPECT_EQ(mode(), 0660U);
    running.server->drain();
    running.thread.join();
    EXPECT_FALSE(fs::exists(path_));
  }
  ::umask(before);
  options_.unix_socket_mode = 01777;
  EXPECT_THAT(refusal(), HasSubstr("unix_socket_mode is 1777; expected 0 to 777"));
}

TEST_F(UnixSocket, WhatAProgramLeftIsReplaced) {
  leave_a_socket();
  ASSERT_TRUE(fs::exists(path_));
  EXPECT_EQ(Client(path_).get("/health"), std::nullopt);
  RunningServer running(FakeEngine::counting, options_);
  EXPECT_EQ(Client(path_).get("/health")->status, 200);
}

TEST_F(UnixSocket, WhatAnotherProgramHasIsLeftAlone) {
  RunningServer running(FakeEngine::counting, options_);
  EXPECT_THAT(refusal(), HasSubstr("socket " + path_ + ": another program has it"));
  EXPECT_EQ(Client(path_).get("/health")->status, 200);
}

// As while a model is loaded.
TEST_F(UnixSocket, WhatAnotherProgramWillListenOnIsLeftAlone) {
  auto first = BoundAddress::bind(options_);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(Client(path_).get("/health"), std::nullopt);
  EXPECT_THAT(refusal(), HasSubstr("another program has it"));
  { const BoundAddress gone = *std::move(first); }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(UnixSocket, WhatIsNoSocketIsLeftAlone) {
  std::ofstream(path_) << "text";
  EXPECT_THAT(refusal(), HasSubstr("socket " + path_ + ": a file that is no socket is there"));
  EXPECT_EQ(fs::file_size(path_), 4U);
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_THAT(refusal(), HasSubstr("a file that is no socket is there"));
  fs::remove(path_);
  fs::create_symlink("/nowhere", path_);
  EXPECT_THAT(refusal(), HasSubstr("a file that is no socket is there"));
}

TEST_F(UnixSocket, AFileThatTookItsPlaceStays) {
  RunningServer running(FakeEngine::counting, options_);
  fs::remove(path_);
  std::ofstream(path_) << "text";
  running.stop();
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(UnixSocket, PathsHaveTheirLength) {
  const std::string inside = folder_.string() + "/";
  options_.unix_socket = inside + std::string(107 - inside.size(), 'x');
  EXPECT_EQ(refusal(), "nothing");
  options_.unix_socket += 'x';
  EXPECT_EQ(refusal(),
            "socket " + options_.unix_socket + ": the path has 108 bytes; expected 1 to 107");
  options_.unix_socket = inside + "none/http.sock";
  EXPECT_EQ(refusal(), "socket " + options_.unix_socket + ": No such file or directory");
}

}  // namespace
}  // namespace dovetail::serve
