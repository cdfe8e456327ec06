#include "serve/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(Page, IsOneFileUnderAStrictPolicy) {
  RunningServer running;
  Client client(running.port);
  const auto response = client.get("/");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(response->headers.at("content-security-policy"), kPagePolicy);
  EXPECT_EQ(response->headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(response->body, kPage);
  for (const char* part :
       {"default-src 'none';", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self';",
        "frame-ancestors 'none';", "form-action 'none';", "require-trusted-types-for 'script'"})
    EXPECT_THAT(std::string(kPagePolicy), HasSubstr(part));
  EXPECT_EQ(kPagePolicy.find("unsafe"), std::string_view::npos);
  EXPECT_THAT(response->body, ::testing::StartsWith("<!DOCTYPE html>"));
  // What the build puts together is there, and asks for nothing else.
  for (const char* part : {"function markdownElements", "async function call(", "class LiveStrip",
                           "class MessageView", "prefers-color-scheme: dark"})
    EXPECT_THAT(response->body, HasSubstr(part));
  EXPECT_EQ(count_of(kPage, "<script"), 1U);
  EXPECT_EQ(count_of(kPage, "<style"), 1U);
  for (const char* part :
       {" src=", "@import", "url(", "innerHTML", "eval(", " style=", " onclick="})
    EXPECT_EQ(count_of(kPage, part), 0U) << part;
}

TEST(Page, AnswersHeadAndGetAlone) {
  RunningServer running;
  Client client(running.port);
  ASSERT_TRUE(client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const auto head = client.receive(true);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->headers.at("content-length"), std::to_string(kPage.size()));
  EXPECT_EQ(client.get("/?theme=1")->status, 200);
  EXPECT_EQ(client.get("//")->status, 200);
  EXPECT_THAT(client.get("/nothing", "Accept: text/html\r\n")->body,
              HasSubstr("there is no /nothing"));
  const auto refused = client.post("/", "{}");
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(refused->headers.at("allow"), "GET, HEAD");
}

// It holds no secret; what it shows it asks for with the key.
TEST(Page, NeedsNoKeyButAKnownHost) {
  ServerOptions options;
  options.api_key = "secret";
  RunningServer keyed(FakeEngine::counting, options);
  EXPECT_EQ(Client(keyed.port).get("/")->status, 200);
  for (const char* path : {"/v1/models", "/events", "/metrics"})
    EXPECT_EQ(Client(keyed.port).get(path)->status, 401) << path;

  RunningServer open;
  Client client(open.port);
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n"));
  EXPECT_EQ(client.receive()->status, 403);
}

}  // namespace
}  // namespace dovetail::serve
