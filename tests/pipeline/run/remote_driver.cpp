#include "remote_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace dovetail::pipeline {

RemoteModel remote_model(const std::vector<const TestEndpoint*>& endpoints,
                         std::uint32_t max_parallel) {
  RemoteModel model;
  for (const TestEndpoint* endpoint : endpoints) model.base_urls.push_back(endpoint->url("/v1"));
  model.model = "test";
  model.max_parallel = max_parallel;
  model.timeout = std::chrono::seconds(60);
  return model;
}

RemoteHostOptions quick_options() {
  RemoteHostOptions options;
  options.limit.longest_cool_down = 50'000;
  options.breaker.first_pause = 50'000;
  options.breaker.longest_pause = 200'000;
  options.retry.base = 10'000;
  options.retry.longest = 100'000;
  return options;
}

ModelRequest question(std::string text, std::uint64_t seed) {
  ModelRequest request;
  request.messages = {{"user", std::move(text)}};
  request.seed = seed;
  return request;
}

std::size_t Driver::Outcome::good() const {
  return static_cast<std::size_t>(
      std::count_if(answers.begin(), answers.end(),
                    [](const auto& answer) { return answer && answer->has_value(); }));
}

std::uint64_t Driver::Outcome::attempts() const {
  std::uint64_t sum = 0;
  for (const auto& answer : answers) {
    if (answer && answer->has_value()) sum += (*answer)->attempts;
  }
  return sum;
}

Driver::Driver(ModelClient client)
    : client_(std::move(client)), shared_(std::make_shared<Shared>()) {
  client_.on_room([shared = shared_] {
    const std::lock_guard lock(shared->mutex);
    ++shared->wakes;
    ++shared->changes;
    shared->news.notify_all();
  });
}

Driver::Outcome Driver::ask(std::size_t count, const Questions& questions,
                            std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->outcome = {};
    shared_->outcome.answers.resize(count);
    shared_->ended = 0;
  }
  const auto take = [shared = shared_, state = client_.state](std::size_t i,
                                                              Result<ModelAnswer> answer) {
    auto states = state();
    const std::lock_guard lock(shared->mutex);
    auto& place = shared->outcome.answers[i];
    if (place) ++shared->outcome.twice;
    place = std::move(answer);
    shared->outcome.states.push_back(std::move(states));
    ++shared->ended;
    ++shared->changes;
    shared->news.notify_all();
  };
  for (std::size_t next = 0;;) {
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->ended == count) break;
      seen = shared_->changes;
    }
    if (Status good = client_.check(); !good) {
      const std::lock_guard lock(shared_->mutex);
      shared_->outcome.check = std::move(good);
      return shared_->outcome;
    }
    for (std::uint32_t room = client_.room(); next < count && room > 0; --room) {
      const std::size_t i = next;
      const Status taken = client_.submit(
          questions(i), [take, i](Result<ModelAnswer> answer) { take(i, std::move(answer)); });
      if (taken) {
        ++next;
      } else if (taken.error().kind == ErrorKind::kExhausted) {
        break;
      } else {
        take(next++, fail(taken.error()));
      }
    }
    std::unique_lock lock(shared_->mutex);
    // check() is to be called from time to time; nothing else is waited for here.
    shared_->news.wait_for(lock, std::chrono::milliseconds(200),
                           [&] { return shared_->changes != seen; });
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << shared_->ended << " of " << count << " ended in time";
      break;
    }
  }
  const std::lock_guard lock(shared_->mutex);
  return shared_->outcome;
}

Result<ModelAnswer> Driver::ask(const ModelRequest& request) {
  Outcome outcome = ask(1, [&](std::size_t) { return request; });
  if (!outcome.answers[0]) return fail(ErrorKind::kInternal, "no answer");
  return *std::move(outcome.answers[0]);
}

std::int64_t Driver::wakes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->wakes;
}

}  // namespace dovetail::pipeline
