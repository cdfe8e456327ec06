#include "cli/server_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "text/utf8.h"
#include "text/visible_text.h"

namespace dovetail::cli {
namespace {

using namespace std::string_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// What a client may send: it would end the line, steer a terminal and be no UTF-8.
const std::string kHostile =
    "a\"b\\c\n[info] forged\r\x1b[31m\x7f\0\xc2\x9b\xe2\x80\xae\xff\xe2\x82"s;

RequestRecord answered() {
  RequestRecord record;
  record.id = "req-1";
  record.key = "alice";
  record.method = "POST";
  record.route = "/v1/completions";
  record.prompt_tokens = 7;
  record.cached_tokens = 2;
  record.completion_tokens = 3;
  record.queue_seconds = 0.001;
  record.first_token_seconds = 0.002;
  record.seconds = 0.0125;
  record.finish = "stop";
  return record;
}

RequestRecord refused(int status, const std::string& message) {
  RequestRecord record;
  record.id = "req-2";
  record.method = "GET";
  record.route = "unknown";
  record.path = "/nothing";
  record.status = record.error_status = status;
  record.error_code = "unknown_path";
  record.error_message = message;
  return record;
}

class Logs : public ::testing::Test {
 protected:
  ServerLog log(LogRequests requests, spdlog::level::level_enum level = spdlog::level::info) {
    return {{requests, level}, std::make_shared<spdlog::sinks::ostream_sink_mt>(out_)};
  }
  std::string text() const { return out_.str(); }
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::istringstream all(out_.str());
    for (std::string line; std::getline(all, line);) found.push_back(line);
    EXPECT_TRUE(out_.str().empty() || out_.str().back() == '\n');
    return found;
  }

  std::ostringstream out_;
};

constexpr const char* kStamp = R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] )";

TEST_F(Logs, TextHasATimeAndALevel) {
  const ServerLog log = this->log(LogRequests::kPlain);
  log.info("listening on http://127.0.0.1:8000");
  RequestRecord record = answered();
  log.request(record);
  record.ignored = "banana, messages[0].kiwi";
  log.request(record);
  log.request(refused(404, "there is no /nothing"));
  ThroughputRecord busy;
  busy.generated_tokens = 12.5;
  busy.cache_used = 0.25;
  log.throughput(busy);
  const std::string first = "req-1 POST /v1/completions 200 in 12.5 ms, key alice";
  const std::string rest = ": 7 tokens in (2 cached), 3 out, queue 1.0 ms, first 2.0 ms, stop";
  const std::string idle = "prompts 0.0 tokens/s, generated 12.5 tokens/s, 0 running, 0 waiting";
  const std::string wanted[] = {
      "[info] listening on http://127.0.0.1:8000", "[info] " + first + rest,
      "[info] " + first + ", ignored \"banana, messages[0].kiwi\"" + rest,
      "[warning] req-2 GET \"/nothing\" 404 in 0.0 ms; unknown_path: \"there is no /nothing\"",
      "[info] " + idle + ", cache 25.0 %, prefix hits 0.0 %"};
  const std::vector<std::string> said = lines();
  ASSERT_EQ(said.size(), std::size(wanted));
  for (std::size_t i = 0; i < said.size(); ++i) {
    std::smatch stamp;
    ASSERT_TRUE(std::regex_search(said[i], stamp, std::regex(std::string("^") + kStamp)))
        << said[i];
    EXPECT_EQ(stamp.suffix().str(), wanted[i]);
  }
}

TEST_F(Logs, JsonIsAnObjectALine) {
  const ServerLog log = this->log(LogRequests::kJson);
  log.info("listening on http://127.0.0.1:8000");
  RequestRecord record = answered();
  record.ignored = "banana";
  log.request(record);
  log.request(refused(404, "there is no /nothing"));
  ThroughputRecord busy;
  busy.running = 3;
  log.throughput(busy);
  std::vector<nlohmann::json> said;
  for (const std::string& line : lines()) {
    said.push_back(nlohmann::json::parse(line));
    EXPECT_THAT(line, ::testing::StartsWith(R"({"time":")"));
    const std::string time = said.back().at("time");
    EXPECT_TRUE(std::regex_match(time, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")))
        << time;
    said.back().erase("time");
  }
  ASSERT_EQ(said.size(), 4U);
  EXPECT_EQ(said[0].dump(), R"({"level":"info","message":"listening on http://127.0.0.1:8000"})");
  EXPECT_EQ(said[1].dump(),
            R"({"cached_tokens":2,"completion_tokens":3,"finish":"stop",)"
            R"("first_token_seconds":0.002,"id":"req-1","ignored":"banana","key":"alice",)"
            R"("level":"info","method":"POST","prompt_tokens":7,"queue_seconds":0.001,)"
            R"("route":"/v1/completions","seconds":0.0125,"status":200})");
  EXPECT_EQ(said[2]["level"], "warning");
  EXPECT_EQ(said[2]["route"], "unknown");
  EXPECT_EQ(said[2]["path"], "/nothing");
  EXPECT_EQ(said[2]["error"].dump(),
            R"({"code":"unknown_path","message":"there is no /nothing","status":404})");
  EXPECT_EQ(said[3]["running"], 3);
  EXPECT_EQ(said[3]["level"], "info");
}

TEST_F(Logs, TimesOfJsonAreInUtc) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  const ServerLog log({LogRequests::kJson, spdlog::level::info}, sink);
  const spdlog::log_clock::time_point time(std::chrono::milliseconds(1767225600007));
  sink->log({time, spdlog::source_loc{}, "", spdlog::level::err, "x"});
  EXPECT_EQ(out.str(), R"({"time":"2026-01-01T00:00:00.007Z","level":"error","message":"x"})"
                       "\n");
}

// Warnings of the engine and the server are lines of the same kind.
TEST_F(Logs, TakesWhatTheProgramSaysOfItself) {
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  log(LogRequests::kJson).install();
  spdlog::warn("a step stands still");
  spdlog::debug("not this");
  spdlog::set_default_logger(before);
  const auto line = nlohmann::json::parse(text());
  EXPECT_EQ(line.at("level"), "warning");
  EXPECT_EQ(line.at("message"), "a step stands still");
}

TEST_F(Logs, HostileTextStaysOnItsLine) {
  for (const LogRequests form : {LogRequests::kPlain, LogRequests::kJson}) {
    out_.str("");
    const ServerLog log = this->log(form);
    RequestRecord record = refused(404, kHostile);
    record.path = "/" + kHostile;
    record.ignored = kHostile;
    record.key = kHostile;
    log.request(record);
    log.info(kHostile);
    const std::string all = text();
    EXPECT_EQ(lines().size(), 2U) << all;
    ASSERT_TRUE(text::is_valid_utf8(all)) << all;
    for (std::size_t at = 0; at < all.size();) {
      const text::CodePoint point = text::code_point_at(all, at);
      EXPECT_TRUE(point.value == '\n' || !text::is_unseen_control(point.value)) << all;
      at += point.size;
    }
    if (form == LogRequests::kPlain) {
      EXPECT_THAT(lines()[0], HasSubstr(R"(GET "/a\"b\\c\n[info] forged\r\u001b[31m)"));
      continue;
    }
    const auto line = nlohmann::json::parse(lines()[0]);
    EXPECT_EQ(line.at("path"), "/" + text::repair_utf8(kHostile));
    EXPECT_EQ(line.at("error").at("message"), text::repair_utf8(kHostile));
    EXPECT_EQ(nlohmann::json::parse(lines()[1]).at("message").get<std::string>().substr(0, 4),
              "a\"b\\");
  }
}

TEST_F(Logs, LongTextIsShortened) {
  const ServerLog log = this->log(LogRequests::kJson);
  RequestRecord record = refused(404, std::string(100000, 'x'));
  record.path = "/x";
  while (record.path.size() < 16000) record.path += "\xe2\x82\xac";  // 3 bytes: 200 cuts one
  log.request(record);
  const auto line = nlohmann::json::parse(text());
  const std::string path = line.at("path");
  EXPECT_EQ(path.size(), 200U + 3U);
  EXPECT_THAT(path, EndsWith("\xe2\x82\xac…"));
  EXPECT_EQ(line.at("error").at("message").get<std::string>().size(), 400U + 3U);
  record.path.erase(record.path.begin() + 1);
  out_.str("");
  log.request(record);
  EXPECT_EQ(nlohmann::json::parse(text()).at("path").get<std::string>().size(), 199U + 3U);
}

TEST_F(Logs, LevelsSayWhatMatters) {
  RequestRecord probe = answered();
  probe.route = "/health";
  RequestRecord cut = answered();  // a stream that ended with an error
  cut.error_status = 504;
  EXPECT_EQ(level_of(answered()), spdlog::level::info);
  EXPECT_EQ(level_of(probe), spdlog::level::debug);
  EXPECT_EQ(level_of(refused(404, "")), spdlog::level::warn);
  EXPECT_EQ(level_of(refused(429, "")), spdlog::level::warn);
  EXPECT_EQ(level_of(refused(500, "")), spdlog::level::err);
  EXPECT_EQ(level_of(cut), spdlog::level::err);
  probe.status = probe.error_status = 503;
  EXPECT_EQ(level_of(probe), spdlog::level::err);
  probe = answered();
  probe.route = "/metrics";
  struct Case {
    spdlog::level::level_enum level;
    std::size_t lines;
  };
  for (const Case& each : {Case{spdlog::level::err, 1}, Case{spdlog::level::warn, 2},
                           Case{spdlog::level::info, 4}, Case{spdlog::level::debug, 5}}) {
    for (const LogRequests form : {LogRequests::kPlain, LogRequests::kJson}) {
      out_.str("");
      const ServerLog log = this->log(form, each.level);
      log.throughput({});
      for (const RequestRecord& record : {probe, answered(), refused(400, "x"), cut})
        log.request(record);
      EXPECT_EQ(lines().size(), each.lines) << text();
    }
  }
}

TEST_F(Logs, RequestsMayBeLeftOut) {
  const ServerLog log = this->log(LogRequests::kNone);
  log.request(answered());
  log.request(refused(500, "x"));
  log.throughput({});
  EXPECT_EQ(text(), "");
  log.info("listening");
  EXPECT_THAT(text(), EndsWith("] [info] listening\n"));
}

}  // namespace
}  // namespace dovetail::cli
