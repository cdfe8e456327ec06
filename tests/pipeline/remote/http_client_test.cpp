#include "pipeline/remote/http_client.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>

#include "pipeline/remote/endpoint/test_endpoint.h"

namespace dovetail::pipeline {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<HttpClient> make_client(HttpClientOptions options = {}) {
  auto client = HttpClient::create(std::move(options));
  EXPECT_TRUE(client.has_value());
  return std::move(*client);
}

HttpRequest post(std::string url, std::string body = "{}") {
  HttpRequest request;
  request.url = std::move(url);
  request.body = std::move(body);
  request.headers = {{"Content-Type", "application/json"}};
  return request;
}

std::future<HttpResult> submit(HttpClient& client, HttpRequest request,
                               HttpClient::RequestId* id = nullptr) {
  auto promise = std::make_shared<std::promise<HttpResult>>();
  auto future = promise->get_future();
  const auto given = client.submit(
      std::move(request), [promise](HttpResult result) { promise->set_value(std::move(result)); });
  if (id != nullptr) *id = given;
  return future;
}

HttpResult fetch(HttpClient& client, HttpRequest request) {
  return submit(client, std::move(request)).get();
}

TEST(HttpClient, SendsAndReceives) {
  TestEndpoint endpoint([](const TestRequest& request) {
    TestReply reply;
    reply.status = 201;
    reply.headers = {{"X-Thing", "  Value "}};
    reply.body = fmt::format("{} {} {} {}", request.method, request.target,
                             request.headers.at("x-mine"), request.body);
    return reply;
  });
  const auto client = make_client();
  HttpRequest request = post(endpoint.url("/path"), "hello");
  request.headers.emplace_back("X-Mine", "yes");
  const HttpResult result = fetch(*client, request);
  EXPECT_EQ(result.error, TransportError::kNone) << result.message;
  EXPECT_EQ(result.status, 201);
  EXPECT_EQ(result.body, "POST /path yes hello");
  EXPECT_EQ(result.header("x-thing"), "Value");
  EXPECT_EQ(result.header("x-other"), "");
  EXPECT_EQ(result.http_version, 11);
  EXPECT_GT(result.latency, 0);
  request.method = "GET";
  request.body.clear();
  EXPECT_EQ(fetch(*client, request).body, "GET /path yes ");
}

TEST(HttpClient, KeepsConnections) {
  TestEndpoint endpoint([](const TestRequest&) { return TestReply{}; });
  const auto client = make_client();
  EXPECT_TRUE(fetch(*client, post(endpoint.url())).fresh_connection);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(fetch(*client, post(endpoint.url())).fresh_connection);
  }
  EXPECT_EQ(endpoint.connections(), 1);
}

TEST(HttpClient, HundredsAreInFlightAtATime) {
  constexpr int kRequests = 300;
  std::atomic<int> arrived = 0;
  TestEndpoint endpoint([&](const TestRequest& request) {
    TestReply reply;
    reply.body = request.body;
    reply.delay = milliseconds(++arrived < kRequests ? 1500 : 0);
    return reply;
  });
  const auto client = make_client();
  std::vector<std::future<HttpResult>> results;
  for (int i = 0; i < kRequests; ++i) {
    results.push_back(submit(*client, post(endpoint.url(), std::to_string(i))));
  }
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_EQ(results[static_cast<std::size_t>(i)].get().body, std::to_string(i));
  }
  EXPECT_GE(endpoint.most_in_flight(), kRequests / 2);
}

TEST(HttpClient, ReadsRetryAfter) {
  struct Case {
    std::vector<std::pair<std::string, std::string>> headers;
    std::optional<Micros> low, high;
  };
  for (const Case& c : {Case{{}, std::nullopt, std::nullopt},
                        Case{{{"Retry-After", "7"}}, 7 * kOneSecond, 7 * kOneSecond},
                        Case{{{"Retry-After", "7"}, {"retry-after-ms", "250"}}, 250'000, 250'000},
                        Case{{{"retry-after-ms", "x"}}, std::nullopt, std::nullopt},
                        Case{{{"Retry-After", "-3"}}, 0, 0},
                        Case{{{"Retry-After", "99999999999999999999"}}, 0, 86'400 * kOneSecond},
                        Case{{{"Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}}, 0, 0},
                        Case{{{"Retry-After", "Fri, 31 Dec 2199 23:59:59 GMT"}},
                             86'400 * kOneSecond,
                             86'400 * kOneSecond}}) {
    TestEndpoint endpoint([&](const TestRequest&) {
      TestReply reply;
      reply.status = 429;
      reply.headers = c.headers;
      return reply;
    });
    const HttpResult result = fetch(*make_client(), post(endpoint.url()));
    EXPECT_EQ(result.status, 429);
    EXPECT_EQ(result.retry_after.has_value(), c.low.has_value());
    if (result.retry_after && c.low) {
      EXPECT_GE(*result.retry_after, *c.low);
      EXPECT_LE(*result.retry_after, *c.high);
    }
  }
}

TEST(HttpClient, NamesWhatWentWrong) {
  struct Case {
    const char* what;
    TestReply reply;
    TransportError error;
  };
  const auto with = [](auto change) {
    TestReply reply;
    reply.body = std::string(1000, 'x');
    change(reply);
    return reply;
  };
  const std::vector<Case> cases = {
      {"not a byte", with([](TestReply& r) { r.drop_after = 0; }), TransportError::kDropped},
      {"half a head", with([](TestReply& r) { r.drop_after = 20; }), TransportError::kDropped},
      {"half a body", with([](TestReply& r) { r.drop_after = 500; }), TransportError::kDropped},
      {"half a chunked body", with([](TestReply& r) {
         r.chunked = true;
         r.drop_after = 500;
       }),
       TransportError::kDropped},
      {"late", with([](TestReply& r) { r.delay = milliseconds(60'000); }),
       TransportError::kTimeout},
      {"silent", with([](TestReply& r) { r.silent = true; }), TransportError::kTimeout},
      {"stops in the body", with([](TestReply& r) {
         r.piece = 100;
         r.pause = milliseconds(60'000);
       }),
       TransportError::kTimeout},
      {"too long", with([](TestReply& r) { r.body = std::string(5000, 'x'); }),
       TransportError::kTooLarge},
      {"too long, unannounced", with([](TestReply& r) {
         r.body = std::string(50'000, 'x');
         r.chunked = true;
         r.piece = 1000;
       }),
       TransportError::kTooLarge},
      {"headers without end", with([](TestReply& r) {
         for (int i = 0; i < 80; ++i) r.headers.emplace_back("X", std::string(1000, 'x'));
       }),
       TransportError::kTooLarge},
      {"not HTTP", with([](TestReply& r) { r.bytes = "SSH-2.0-server\r\n"; }),
       TransportError::kProtocol},
      {"not a chunk", with([](TestReply& r) {
         r.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
       }),
       TransportError::kDropped},
      {"not gzip", with([](TestReply& r) {
         r.headers = {{"Content-Encoding", "gzip"}};
       }),
       TransportError::kProtocol},
  };
  const auto client = make_client();
  for (const bool reused : {false, true}) {
    for (const Case& c : cases) {
      TestEndpoint endpoint([&](const TestRequest& request) {
        return request.target == "/bad" ? c.reply : TestReply{};
      });
      HttpRequest request = post(endpoint.url("/bad"));
      request.timeouts.total = kOneSecond / 4;
      request.max_response = 4000;
      if (reused) {
        EXPECT_EQ(fetch(*client, post(endpoint.url("/good"))).status, 200);
      }
      const HttpResult result = fetch(*client, request);
      EXPECT_EQ(result.error, c.error) << c.what << ": " << result.message;
      EXPECT_EQ(result.status, 0);
      EXPECT_THAT(result.message, HasSubstr(endpoint.url("/bad"))) << c.what;
      if (c.error == TransportError::kTimeout) {
        EXPECT_THAT(result.message, HasSubstr("no whole answer within the timeout of 0.25 s"));
      }
    }
  }
}

TEST(HttpClient, NamesWhatNeverBegan) {
  const auto client = make_client();
  std::uint16_t closed_port = 0;
  {
    closed_port = TestEndpoint([](const TestRequest&) { return TestReply{}; }).port();
  }
  EXPECT_EQ(fetch(*client, post(fmt::format("http://127.0.0.1:{}", closed_port))).error,
            TransportError::kConnect);
  EXPECT_EQ(fetch(*client, post("http://name.invalid/")).error, TransportError::kResolve);
  for (const char* url : {"", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "not a url",
                          "http://127.0.0.1:99999/", "http://a\r\nb/"}) {
    EXPECT_EQ(fetch(*client, post(url)).error, TransportError::kInvalid) << url;
  }
  for (const auto& header : std::vector<std::pair<std::string, std::string>>{
           {"A\r\nB", "c"}, {"A", "b\r\nC: d"}, {"", "x"}, {"A: b", "c"}}) {
    HttpRequest request = post("http://127.0.0.1/");
    request.headers.push_back(header);
    EXPECT_EQ(fetch(*client, request).error, TransportError::kInvalid);
  }
  TestEndpoint plain([](const TestRequest&) { return TestReply{}; });
  EXPECT_EQ(fetch(*client, post(fmt::format("https://127.0.0.1:{}", plain.port()))).error,
            TransportError::kTls);
}

TEST(HttpClient, BodiesInPiecesArriveWhole) {
  std::string body;
  for (int i = 0; body.size() < 2'000'000; ++i) body += std::to_string(i);
  for (const bool chunked : {false, true}) {
    TestEndpoint endpoint([&](const TestRequest& request) {
      TestReply reply;
      reply.body = request.body;
      reply.piece = 70'000;
      reply.pause = milliseconds(1);
      reply.chunked = chunked;
      return reply;
    });
    EXPECT_EQ(fetch(*make_client(), post(endpoint.url(), body)).body, body);
  }
}

TEST(HttpClient, CancelsWhatIsInFlight) {
  TestEndpoint endpoint([](const TestRequest&) {
    TestReply reply;
    reply.silent = true;
    return reply;
  });
  const auto client = make_client();
  HttpClient::RequestId id = 0;
  auto result = submit(*client, post(endpoint.url()), &id);
  client->cancel(id);
  EXPECT_EQ(result.get().error, TransportError::kCancelled);
  client->cancel(id);
  client->cancel(12'345);

  auto second = submit(*client, post(endpoint.url()), &id);
  while (endpoint.in_flight() == 0) std::this_thread::sleep_for(milliseconds(1));
  client->cancel(id);
  EXPECT_EQ(second.get().error, TransportError::kCancelled);
}

TEST(HttpClient, ClosingEndsEverything) {
  TestEndpoint endpoint([](const TestRequest&) {
    TestReply reply;
    reply.silent = true;
    return reply;
  });
  std::atomic<int> cancelled = 0;
  {
    const auto client = make_client();
    for (int i = 0; i < 100; ++i) {
      client->submit(post(endpoint.url()), [&](HttpResult result) {
        cancelled += result.error == TransportError::kCancelled ? 1 : 0;
        // Too late, but it still gets its answer.
        client->submit(post(endpoint.url()), [&](HttpResult late) {
          cancelled += late.error == TransportError::kCancelled ? 1 : 0;
        });
      });
    }
  }
  EXPECT_EQ(cancelled, 200);
}

TEST(HttpClient, CallbacksMaySubmit) {
  TestEndpoint endpoint([](const TestRequest&) { return TestReply{}; });
  const auto client = make_client();
  std::promise<int> done;
  std::function<void(int)> next = [&](int left) {
    client->submit(post(endpoint.url()), [&, left](HttpResult result) {
      if (result.status != 200 || left == 0) {
        done.set_value(left);
      } else {
        next(left - 1);
      }
    });
  };
  next(50);
  EXPECT_EQ(done.get_future().get(), 0);
  EXPECT_EQ(endpoint.requests(), 51);
  EXPECT_EQ(endpoint.connections(), 1);
}

TEST(HttpClient, ManyThreadsSubmitAndCancel) {
  TestEndpoint endpoint([](const TestRequest& request) {
    TestReply reply;
    reply.delay = std::chrono::microseconds(request.number % 7 * 300);
    if (request.number % 11 == 0) reply.drop_after = 0;
    return reply;
  });
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::atomic<int> ended = 0;
  {
    const auto client = make_client();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          const auto id = client->submit(post(endpoint.url()), [&](const HttpResult&) { ++ended; });
          if (i % 5 == 0) client->cancel(id);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(ended, kThreads * kEach);
}

TEST(HttpClient, SecretsStayOutOfErrors) {
  const auto client = make_client();
  HttpRequest request = post("http://user:pa55word@127.0.0.1:1/sk-verysecret?api-key=abc#x");
  request.headers.emplace_back("Authorization", "Bearer sk-verysecret");
  const HttpResult result = fetch(*client, request);
  EXPECT_NE(result.error, TransportError::kNone);
  EXPECT_THAT(result.message, HasSubstr("127.0.0.1:1/***"));
  for (const char* secret : {"sk-verysecret", "pa55word", "abc", "user"}) {
    EXPECT_THAT(result.message, Not(HasSubstr(secret)));
  }
}

TEST(HttpMessage, PublicUrls) {
  for (const auto& [url, shown] :
       std::vector<std::pair<std::string, std::string>>{{"https://h/p?k=v", "https://h/p"},
                                                        {"https://u:p@h:1/p#f", "https://h:1/p"},
                                                        {"https://u:p@h", "https://h"},
                                                        {"https://h/a@b", "https://h/a@b"},
                                                        {"u:p@h/x", "h/x"},
                                                        {"", ""},
                                                        {"://", "://"}}) {
    EXPECT_EQ(public_url(url), shown);
  }
}

TEST(HttpMessage, Redacts) {
  HttpRequest request;
  request.headers = {{"authorization", "Bearer abcdef"}, {"X-Api-Key", "123"}, {"Accept", "json"}};
  EXPECT_EQ(redact("key abcdef of json 123, abcdefabcdef", secrets_of(request)),
            "key *** of json 123, ******");
}

}  // namespace
}  // namespace dovetail::pipeline
