#include "serve/http_framing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

// ---- heads

struct HeadCase {
  std::string text;
  int status;  // of the scanner's or the parser's error; 0: a head
  std::string says;
};
void PrintTo(const HeadCase& each, std::ostream* out) {
  *out << ::testing::PrintToString(each.text.substr(0, 80));
}

// Scans `text` as it would arrive in pieces of `piece` bytes, and parses what was found.
Outcome<HttpHead> read_head(std::string_view text, std::size_t piece) {
  HeadScanner scanner;
  for (std::size_t size = 0; !scanner.done() && size < text.size();) {
    size = std::min(size + piece, text.size());
    if (auto problem = scanner.scan(text.substr(0, size))) {
      return tl::unexpected<ApiError>(std::move(*problem));
    }
  }
  if (!scanner.done()) return tl::unexpected<ApiError>(ApiError{});
  return parse_head(text.substr(scanner.begin(), scanner.end() - scanner.begin()));
}

class Heads : public ::testing::TestWithParam<HeadCase> {};
TEST_P(Heads, AreReadOrRefusedHoweverTheyArrive) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, SIZE_MAX / 2}) {
    const auto head = read_head(GetParam().text, piece);
    EXPECT_EQ(head ? 0 : head.error().status, GetParam().status);
    if (!head) {
      EXPECT_THAT(head.error().message, HasSubstr(GetParam().says));
    }
  }
}

const std::string kGet = "GET /health HTTP/1.1\r\n";
const std::string kHost = "Host: localhost\r\n";
INSTANTIATE_TEST_SUITE_P(
    Of, Heads,
    ::testing::Values(
        HeadCase{kGet + kHost + "\r\n", 0, ""}, HeadCase{"\r\n" + kGet + kHost + "\r\n", 0, ""},
        HeadCase{"\r\n\r\n" + kGet + kHost + "\r\n", 0, ""},
        HeadCase{"GET /health HTTP/1.0\r\n\r\n", 0, ""},
        HeadCase{kGet + "Host: [::1]:8000\r\n\r\n", 0, ""}, HeadCase{kGet + "Host:\r\n\r\n", 0, ""},
        HeadCase{kGet + kHost + "Transfer-Encoding: Chunked\r\n\r\n", 0, ""},
        HeadCase{kGet + kHost + "X: a\tb \xc3\xa9\r\n\r\n", 0, ""},
        HeadCase{kGet + "\r\n", 400, "no Host header"},
        HeadCase{kGet + kHost + kHost + "\r\n", 400, "more than one Host"},
        HeadCase{kGet + "Host: a b\r\n\r\n", 400, "Host is \"a b\""},
        HeadCase{kGet + "Host: user@localhost\r\n\r\n", 400, "Host is"},
        HeadCase{kGet + "Host: localhost:x\r\n\r\n", 400, "Host is"},
        HeadCase{kGet + "Host: [::1\r\n\r\n", 400, "Host is"},
        HeadCase{kGet + "Host: [::1]x\r\n\r\n", 400, "Host is"},
        HeadCase{"GET http:///health HTTP/1.1\r\n" + kHost + "\r\n", 400, "valid host"},
        HeadCase{kGet + kHost + "X: a\r\n b\r\n\r\n", 400, "folded"},
        HeadCase{kGet + kHost + "X: a\r\n\tb\r\n\r\n", 400, "folded"},
        HeadCase{kGet + " X: a\r\n" + kHost + "\r\n", 400, "folded"},
        HeadCase{kGet + kHost + "X : a\r\n\r\n", 400, "colon"},
        HeadCase{kGet + kHost + ": a\r\n\r\n", 400, "without a name"},
        HeadCase{kGet + kHost + "X: a\n\r\n\r\n", 400, "control character"},
        HeadCase{kGet + kHost + "X: a\rb\r\n\r\n", 400, "without a line feed"},
        HeadCase{kGet + kHost + std::string("X: \0\r\n\r\n", 8), 400, "control character"},
        HeadCase{"GET /health HTTP/1.1\n" + kHost + "\r\n", 400, "control character"},
        HeadCase{"\n" + kGet + kHost + "\r\n", 400, "control character"},
        HeadCase{"GET /health\r\n\r\n", 400, "HTTP/1.1 or HTTP/1.0"},
        HeadCase{"PRI * HTTP/2.0\r\n\r\n", 400, "HTTP/1.1 or HTTP/1.0"},
        HeadCase{"\x16\x03\x01", 400, "byte 0"},
        HeadCase{"G\x01T / HTTP/1.1\r\n" + kHost + "\r\n", 400, "byte 1"},
        HeadCase{kGet + kHost + "Content-Length: -1\r\n\r\n", 400, "not a valid"},
        HeadCase{kGet + kHost + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "not a"},
        HeadCase{kGet + kHost + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, ""},
        HeadCase{kGet + kHost + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400, ""},
        HeadCase{"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.0"},
        HeadCase{kGet + kHost + "Transfer-Encoding: gzip\r\n\r\n", 501, "\"gzip\""},
        HeadCase{kGet + kHost + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "gzip, chunked"},
        HeadCase{kGet + kHost + "Transfer-Encoding: \r\n\r\n", 501, "expected \"chunked\""},
        HeadCase{kGet + kHost + "Transfer-Encoding: xchunked\r\n\r\n", 501, "xchunked"},
        HeadCase{kGet + "X: " + std::string(kMaxHeadBytes, 'x'), 431, "16384 bytes"},
        HeadCase{std::string(kMaxHeadBytes, 'x') + "y", 431, "16384 bytes"}));

TEST(Head, SaysWhatTheRequestIs) {
  const auto head = read_head(
      "POST /v1/completions?a=b HTTP/1.1\r\nHost: LocalHost:8000\r\nContent-Length: 5\r\n"
      "Expect: 100-Continue\r\nAuthorization: Bearer x\r\n\r\nrest",
      3);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->target, "/v1/completions?a=b");
  EXPECT_EQ(head->host, "localhost");
  EXPECT_EQ(head->content_length, 5U);
  EXPECT_EQ(head->authorization, "Bearer x");
  EXPECT_TRUE(head->has_body() && head->expects_continue && head->keep_alive && !head->chunked);
}

TEST(Head, TakesTheHostOfAnAbsoluteTargetInTheHeadersPlace) {
  for (const auto& [target, path, host] :
       {std::array<const char*, 3>{"http://LOCALHOST:80/health?x", "/health?x", "localhost"},
        std::array<const char*, 3>{"https://[::1]", "/", "[::1]"},
        std::array<const char*, 3>{"HTTP://a.b?q=http://c/", "/?q=http://c/", "a.b"},
        std::array<const char*, 3>{"/x?u=http://c/d", "/x?u=http://c/d", "other"}}) {
    const auto head =
        read_head(fmt::format("GET {} HTTP/1.1\r\nHost: other:1\r\n\r\n", target), 1000);
    ASSERT_TRUE(head.has_value()) << target;
    EXPECT_EQ(head->target, path);
    EXPECT_EQ(head->host, host);
  }
}

// ---- bodies

struct BodyCase {
  std::string text;
  int status;  // 0: a body, followed by "next"
  std::string payload;
};
void PrintTo(const BodyCase& each, std::ostream* out) {
  *out << ::testing::PrintToString(each.text.substr(0, 80));
}

constexpr std::size_t kMaxPayload = 32;

class Chunks : public ::testing::TestWithParam<BodyCase> {};
TEST_P(Chunks, AreDecodedOrRefusedHoweverTheyArrive) {
  const std::string text = GetParam().text + "next";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, text.size()}) {
    BodyDecoder decoder = BodyDecoder::of_chunks(kMaxPayload);
    std::string payload;
    int status = 0;
    std::size_t at = 0;
    while (!decoder.done() && status == 0 && at < text.size()) {
      const auto step = decoder.next(std::string_view(text).substr(at, piece));
      if (step) {
        ASSERT_GT(step->taken, 0U);
        at += step->taken;
        payload += step->payload;
      } else {
        status = step.error().status;
        EXPECT_FALSE(step.error().message.empty());
      }
    }
    EXPECT_EQ(status, GetParam().status) << "in pieces of " << piece;
    if (GetParam().status == 0) {
      EXPECT_TRUE(decoder.done());
      EXPECT_EQ(payload, GetParam().payload);
      EXPECT_EQ(text.substr(at), "next");
    }
  }
}

std::string many(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Of, Chunks,
    ::testing::Values(
        BodyCase{"0\r\n\r\n", 0, ""}, BodyCase{"3\r\nabc\r\n0\r\n\r\n", 0, "abc"},
        BodyCase{"1\r\na\r\n00a\r\n0123456789\r\n0000\r\n\r\n", 0, "a0123456789"},
        BodyCase{"A\r\n0123456789\r\n0\r\n\r\n", 0, "0123456789"},
        BodyCase{"1;x=\"y z\";w\r\na\r\n0;end\r\nT: v\r\nU:\r\n\r\n", 0, "a"},
        BodyCase{many(32, "1\r\na\r\n") + "0\r\n\r\n", 0, std::string(32, 'a')},
        BodyCase{"0x10\r\n", 400, ""}, BodyCase{"3Agarbage\r\n", 400, ""},
        BodyCase{"\r\n", 400, ""}, BodyCase{";x\r\n", 400, ""}, BodyCase{"-1\r\n", 400, ""},
        BodyCase{"+1\r\n", 400, ""}, BodyCase{" 1\r\n", 400, ""}, BodyCase{"1 \r\n", 400, ""},
        BodyCase{"1\n", 400, ""}, BodyCase{"1\rx", 400, ""}, BodyCase{"1;x\n", 400, ""},
        BodyCase{"1\r\nabc", 400, ""}, BodyCase{"1\r\na\n", 400, ""},
        BodyCase{"1\r\na\r1", 400, ""}, BodyCase{"00000000000000001\r\n", 400, ""},
        BodyCase{"0\r\n folded\r\n\r\n", 400, ""}, BodyCase{"0\r\nno colon\r\n", 400, ""},
        BodyCase{"0\r\nT: \x01\r\n\r\n", 400, ""}, BodyCase{"21\r\n", 413, ""},
        BodyCase{"20\r\n" + std::string(32, 'a') + "\r\n1\r\n", 413, ""},
        BodyCase{"ffffffffffffffff\r\n", 413, ""},
        BodyCase{"1\r\na\r\nffffffffffffffff\r\n", 413, ""},
        BodyCase{"1;" + std::string(2000, 'x'), 413, ""},
        BodyCase{many(100, "0;" + std::string(1000, 'x') + "\r\n"), 400, ""},
        BodyCase{many(31, "1;" + std::string(1000, 'x') + "\r\na\r\n") + "0\r\n\r\n", 0,
                 std::string(31, 'a')},
        BodyCase{"0\r\nT: " + std::string(9000, 'x'), 431, ""},
        BodyCase{"0\r\n" + many(1000, "T: abcdefg\r\n"), 431, ""}));

TEST(Body, CountsChunkLinesAgainstTheLimitToo) {
  BodyDecoder decoder = BodyDecoder::of_chunks(1000);
  const std::string chunk = "1;" + std::string(1000, 'x') + "\r\na\r\n";
  std::size_t taken = 0;
  while (true) {
    const auto step = decoder.next(std::string_view(chunk).substr(taken % chunk.size()));
    if (!step) {
      EXPECT_EQ(step.error().status, 413);
      break;
    }
    taken += step->taken;
    ASSERT_LE(taken, kMaxFramingBytes + 1000);
  }
}

TEST(Body, OfAKnownLengthEndsThere) {
  EXPECT_TRUE(BodyDecoder::of_length(0).done());
  BodyDecoder decoder = BodyDecoder::of_length(5);
  auto step = decoder.next("abc");
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->payload, "abc");
  EXPECT_FALSE(decoder.done());
  step = decoder.next("defg");
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->payload, "de");
  EXPECT_EQ(step->taken, 2U);
  EXPECT_TRUE(decoder.done());
}

}  // namespace
}  // namespace dovetail::serve
