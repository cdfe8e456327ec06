#include "serve/body_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kPatience{10};

// A job that says when it has begun and ends when it is told to.
struct Held {
  std::promise<void> begun;
  std::promise<void> release;
  std::promise<void> ended;
  bool stopped = false;

  BodyJobs::Ticket add(BodyJobs& jobs, JobClass kind, std::string tenant) {
    return jobs.add(
        kind, std::move(tenant),
        [this](const std::atomic<bool>& stop) {
          begun.set_value();
          release.get_future().wait_for(kPatience);
          stopped = stop;
        },
        [this] { ended.set_value(); });
  }
  bool has_begun(std::chrono::milliseconds patience = kPatience) {
    return begun.get_future().wait_for(patience) == std::future_status::ready;
  }
  bool has_ended() { return ended.get_future().wait_for(kPatience) == std::future_status::ready; }
};

TEST(BodyJobs, NoClassWaitsForAnother) {
  BodyJobs jobs({});
  Held first;
  Held second;
  Held large;
  ASSERT_NE(first.add(jobs, JobClass::kGrammar, "a"), nullptr);
  ASSERT_NE(second.add(jobs, JobClass::kGrammar, "b"), nullptr);
  ASSERT_NE(large.add(jobs, JobClass::kLargeBody, ""), nullptr);
  EXPECT_TRUE(first.has_begun());
  EXPECT_TRUE(second.has_begun());
  EXPECT_TRUE(large.has_begun());
  Held body;
  ASSERT_NE(body.add(jobs, JobClass::kBody, ""), nullptr);
  EXPECT_TRUE(body.has_begun());
  for (Held* each : {&first, &second, &large, &body}) each->release.set_value();
  jobs.stop();  // the workers use what this test owns
}

TEST(BodyJobs, OneTenantHasOneGrammarAtATimeAndTenantsTakeTurns) {
  BodyJobs jobs({});
  Held running;
  ASSERT_NE(running.add(jobs, JobClass::kGrammar, "a"), nullptr);
  ASSERT_TRUE(running.has_begun());
  Held blocker;  // the other worker: from here on one after the other
  ASSERT_NE(blocker.add(jobs, JobClass::kGrammar, "z"), nullptr);
  ASSERT_TRUE(blocker.has_begun());
  std::mutex mutex;
  std::vector<std::string> order;
  std::promise<void> all;
  for (const char* name : {"a1", "a2", "b1", "b2", "c1"}) {
    jobs.add(
        JobClass::kGrammar, std::string(1, name[0]),
        [&, name](const std::atomic<bool>&) {
          const std::lock_guard lock(mutex);
          order.emplace_back(name);
        },
        [&] {
          const std::lock_guard lock(mutex);
          if (order.size() == 5) all.set_value();
        });
  }
  Held last;
  ASSERT_NE(last.add(jobs, JobClass::kGrammar, "d"), nullptr);
  // "a" still has one under way, so that the free worker passes over its others.
  blocker.release.set_value();
  EXPECT_TRUE(last.has_begun());
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(order, ElementsAre("b1", "c1"));
  }
  running.release.set_value();
  last.release.set_value();
  ASSERT_EQ(all.get_future().wait_for(kPatience), std::future_status::ready);
  jobs.stop();  // the workers use what this test owns
}

TEST(BodyJobs, WhatIsWithdrawnNeverBeginsOrIsToldToStop) {
  BodyJobs jobs({});
  Held running;
  const auto ticket = running.add(jobs, JobClass::kGrammar, "a");
  ASSERT_TRUE(running.has_begun());
  Held waiting;
  const auto withdrawn = waiting.add(jobs, JobClass::kGrammar, "a");
  EXPECT_TRUE(jobs.withdraw(withdrawn));
  EXPECT_FALSE(jobs.withdraw(withdrawn));
  EXPECT_FALSE(jobs.withdraw(ticket));
  running.release.set_value();
  EXPECT_TRUE(running.has_ended());
  EXPECT_TRUE(running.stopped);
  Held after;
  after.add(jobs, JobClass::kGrammar, "a");
  EXPECT_TRUE(after.has_begun());
  after.release.set_value();
  EXPECT_FALSE(waiting.has_begun(std::chrono::milliseconds(0)));
  jobs.stop();  // the workers use what this test owns
}

TEST(BodyJobs, QueuesAreBounded) {
  BodyJobs jobs({1, 3, 2});
  Held a;
  ASSERT_NE(a.add(jobs, JobClass::kGrammar, "a"), nullptr);
  ASSERT_TRUE(a.has_begun());
  const auto nothing = [](const std::atomic<bool>&) {};
  const auto add = [&](const char* tenant) {
    return jobs.add(JobClass::kGrammar, tenant, nothing, [] {}) != nullptr;
  };
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(add("a"));
  EXPECT_FALSE(add("a"));
  Held b;
  ASSERT_NE(b.add(jobs, JobClass::kGrammar, "b"), nullptr);
  ASSERT_TRUE(b.has_begun());
  EXPECT_TRUE(add("b"));
  EXPECT_FALSE(add("c"));  // of all tenants
  a.release.set_value();
  b.release.set_value();
  jobs.stop();  // the workers use what this test owns
}

// A server whose grammars never come to an end by themselves, unless they are "good".
class DearGrammars : public ::testing::Test {
 protected:
  void start(const ServerOptions& options = {}) {
    running_ = std::make_unique<RunningServer>(
        FakeEngine::counting, options, false, [this](Backend& backend) {
          const auto compile = backend.compile;
          backend.compile = [this, compile](GrammarKind kind, std::string_view text,
                                            const std::atomic<bool>& stop) {
            {
              const std::lock_guard lock(mutex_);
              compiled_.emplace_back(text);
            }
            changed_.notify_all();
            while (text.find("good") != 0 && !stop && !over_) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            return compile(kind, text, stop);
          };
        });
  }
  void TearDown() override {
    over_ = true;
    running_->stop();
  }

  static std::string body(const std::string& regex, const std::string& user = "a") {
    return fmt::format(R"({{"prompt":"x","max_tokens":1,"guided_regex":"{}","user":"{}"}})", regex,
                       user);
  }
  std::unique_ptr<Client> ask(const std::string& regex) {
    auto client = std::make_unique<Client>(running_->port);
    client->send(post_text("/v1/completions", body(regex)));
    return client;
  }
  int status(const std::string& text) {
    const auto response = Client(running_->port).post("/v1/completions", text);
    return response ? response->status : 0;
  }
  bool wait_compiled(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return compiled_.size() >= count; });
  }
  // Waits until so many connections are open, that of the question included.
  bool wait_connections(int count) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      const auto response = Client(running_->port).get("/metrics");
      if (response &&
          response->body.find(fmt::format("http_connections {}\n", count)) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> compiled_;
  std::atomic<bool> over_ = false;
  std::unique_ptr<RunningServer> running_;
};

TEST_F(DearGrammars, HoldUpNoCheapBodyAndNoKnownGrammar) {
  start();
  EXPECT_EQ(status(body("good")), 200);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(ask(fmt::format("bomb{}", i)));
  ASSERT_TRUE(wait_compiled(2));
  EXPECT_EQ(status(R"({"prompt":"x","max_tokens":1})"), 200);
  EXPECT_EQ(status(body("good")), 200);
  EXPECT_EQ(status(body("good2", "b")), 200);  // of another user, compiled at once
}

TEST_F(DearGrammars, AreSkippedWhenTheirClientsHaveGone) {
  start();
  const auto running = ask("bomb");
  ASSERT_TRUE(wait_compiled(1));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(ask(fmt::format("bomb{}", i)));
  ASSERT_TRUE(wait_connections(22));
  clients.clear();
  ASSERT_TRUE(wait_connections(2));
  running->close();  // stops the one under way
  EXPECT_EQ(status(body("good")), 200);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(compiled_.front(), "bomb");
  EXPECT_EQ(std::count_if(compiled_.begin(), compiled_.end(),
                          [](const std::string& text) { return text.starts_with("bomb"); }),
            1);
}

TEST_F(DearGrammars, AreRefusedPastTheQueue) {
  ServerOptions options;
  options.max_queued_grammars_per_user = 2;
  start(options);
  const auto first = ask("bomb");
  ASSERT_TRUE(wait_compiled(1));
  std::vector<std::future<std::optional<ClientResponse>>> others;
  for (const char* name : {"bomb1", "bomb2", "bomb3"}) {
    others.push_back(std::async(std::launch::async, [this, name] {
      return Client(running_->port).post("/v1/completions", body(name));
    }));
  }
  // Two of them find a place and wait; one is answered.
  std::optional<ClientResponse> refused;
  for (int i = 0; i < 10'000 && !refused; ++i) {
    for (auto& each : others) {
      if (!refused && each.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) {
        refused = each.get();
      }
    }
  }
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->headers.at("retry-after"), "1");
  EXPECT_THAT(refused->body, HasSubstr("too many new grammars are waiting"));
  EXPECT_EQ(status(body("good3", "b")), 200);
  over_ = true;
}

}  // namespace
}  // namespace dovetail::serve
