#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/laws/run_laws.h"
#include "pipeline/run/failed_cells.h"
#include "pipeline/run/run_plan.h"
#include "pipeline/run/runner.h"
#include "support/temp_folder.h"

namespace dovetail::pipeline {

// A model that answers by a function, on threads of its own, and remembers what it was asked.
class ScriptedModel {
 public:
  using Script = std::function<Result<ModelAnswer>(const ModelRequest&)>;

  ScriptedModel(std::uint32_t slots, Script script) : slots_(slots), script_(std::move(script)) {
    for (std::uint32_t i = 0; i < slots; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~ScriptedModel() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    filled_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  ModelClient client() {
    ModelClient client;
    client.slots = slots_;
    client.room = [this] {
      const std::lock_guard lock(mutex_);
      return slots_ - in_flight_;
    };
    client.on_room = [](const std::function<void()>&) {};
    client.submit = [this](const ModelRequest& request, AnswerSink sink) -> Status {
      const std::lock_guard lock(mutex_);
      if (in_flight_ == slots_) return fail(ErrorKind::kExhausted, "no slot is free");
      ++in_flight_;
      asked_.push_back(request);
      queue_.emplace_back(request, std::move(sink));
      filled_.notify_one();
      return {};
    };
    client.check = [] { return Status(); };
    client.state = [] { return std::vector<ModelState>(); };
    return client;
  }

  std::vector<ModelRequest> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      filled_.wait(lock, [&] { return ends_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto [request, sink] = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      auto answer = script_(request);
      lock.lock();
      --in_flight_;
      lock.unlock();
      sink(std::move(answer));
      lock.lock();
    }
  }

  std::uint32_t slots_;
  Script script_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::pair<ModelRequest, AnswerSink>> queue_;
  std::vector<ModelRequest> asked_;
  std::uint32_t in_flight_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

inline ModelAnswer answer(std::string text) {
  ModelAnswer result;
  result.text = std::move(text);
  result.usage.prompt_tokens = 10;
  result.usage.completion_tokens = 5;
  result.on_wire_us = 7;
  return result;
}

inline std::string prompt_of(const ModelRequest& request) {
  return request.messages.empty() ? request.prompt : request.messages.back().content;
}

inline ScriptedModel::Script writes() {
  return
      [](const ModelRequest& request) { return answer(fmt::format("<{}>", prompt_of(request))); };
}

using RunFolder = test::TempFolder;

// A column that writes and one that judges: {{ i }} is the number of the record.
inline constexpr const char* kJudgedColumns = R"(
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
  - {name: text, type: llm-text, model: gen, prompt: "write {{ i }}"}
  - name: grade
    type: llm-judge
    model: judge
    answer: option
    corrections: 0
    retries: 2
    prompt: "grade {{ text }}"
    rubrics: [{name: good, description: is it, options: {"yes": it is, "no": it is not}}]
  - {name: size, type: expression, as: integer, value: "{{ text | length }}"}
)";

inline constexpr const char* kJudgedModels = R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g, input_price: 2.0, output_price: 10.0}
  judge: {endpoint: "http://localhost:1/v1", model: j}
)";

// Of so many records, with further settings and, where they are given, other columns.
inline std::string judged_pipeline(int records, const std::string& more = "",
                                   const std::string& columns = kJudgedColumns) {
  return fmt::format("records: {}\n{}{}{}", records, more, kJudgedModels, columns);
}

// The answers of a judge that likes all texts but those with a 3.
inline ScriptedModel::Script grades() {
  return [](const ModelRequest& request) {
    return answer(prompt_of(request).find('3') == std::string::npos ? "yes" : "no");
  };
}

// Of a pipeline's text, in which {{ i }} is the number of the record.
inline PipelineSpec spec_of(const std::string& yaml) {
  auto spec = parse_pipeline(yaml, "test.yaml", {});
  if (!spec) throw std::runtime_error(spec.error().message);
  return *std::move(spec);
}

// One run, or the continuation of one, of a spec whose drawn columns hold the record's number.
struct Session {
  std::vector<std::string> lines;  // records as they were emitted; dropped ones as "- REASON"
  Result<RunProgress> progress = fail(ErrorKind::kInternal, "not run");
  std::vector<std::string> violations;
};

inline testing::AssertionResult is_lawful(const Session& session) {
  if (!session.progress) return testing::AssertionFailure() << session.progress.error().message;
  if (session.violations.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << session.violations.front();
}

// The store of the spec's run in a folder.
inline std::unique_ptr<Store> open_run(const PipelineSpec& spec,
                                       const std::filesystem::path& folder, OpenMode mode) {
  auto store = Store::open((folder / "run.db").string(), mode, StoreOptions{});
  if (!store) throw std::runtime_error(store.error().message);
  std::vector<ColumnSpec> columns;
  const std::vector<Hash128> hashes = fingerprints(spec, 0);
  for (std::size_t i = 0; i < spec.columns.size(); ++i) {
    columns.push_back({spec.columns[i].name, hashes[i], false});
  }
  if (const auto changes = (*store)->reconcile(columns); !changes) {
    throw std::runtime_error(changes.error().message);
  }
  return *std::move(store);
}

// A row of results as JSON, without the marks of texts that were not cut.
inline std::string line_of(Json row) {
  std::vector<std::string> idle;
  for (const auto& [name, value] : row.items()) {
    if (name.ends_with("_cut") && value != Json(true)) idle.push_back(name);
  }
  for (const std::string& name : idle) row.erase(name);
  return row.dump();
}

// Runs with what `ports` has, and a session's own.
inline Session run_with(const PipelineSpec& spec, RunPorts ports, RunLaws* laws = nullptr) {
  Session session;
  RunLaws own(spec);
  if (laws == nullptr) laws = &own;
  laws->begin(ports.leases != nullptr, ports.in_order);
  ports.draw = [&](ColumnId column, RecordId record, Json& row) -> Status {
    row[spec.columns[column].name] = record;
    return {};
  };
  ports.emit = [&](const FinishedRecord& record) -> Status {
    session.lines.push_back(record.reason.empty() ? line_of(record.row)
                                                  : fmt::format("- {}", record.reason));
    return {};
  };
  ports.observe = [laws](const RunEvent& event) { laws->see(event); };
  session.progress = run_pipeline(spec, ports);
  if (session.progress && session.progress->end == RunEnd::kComplete) laws->finish();
  for (const std::string& violation : laws->violations()) session.violations.push_back(violation);
  return session;
}

// `laws` judges several sessions of a run; without it they are judged one by one.
inline Session run_session(const PipelineSpec& spec, const std::filesystem::path& folder,
                           std::vector<ModelClient> models,
                           std::function<StopLevel()> stop = nullptr, RunLaws* laws = nullptr,
                           bool retry_failed = false) {
  RunPorts ports;
  ports.resumes = std::filesystem::exists(folder / "run.db");
  const auto store = open_run(spec, folder, ports.resumes ? OpenMode::kResume : OpenMode::kCreate);
  if (retry_failed) {
    if (const auto forgotten = forget_failed_cells(spec, *store); !forgotten) {
      throw std::runtime_error(forgotten.error().message);
    }
  }
  ports.store = store.get();
  ports.models = std::move(models);
  ports.stop = std::move(stop);
  return run_with(spec, std::move(ports), laws);
}

// A worker of a run that several share, all with this store.
inline Session run_worker(const PipelineSpec& spec, Store& store, std::vector<ModelClient> models,
                          const LeasePort& leases, std::function<StopLevel()> stop = nullptr,
                          RunLaws* laws = nullptr) {
  RunPorts ports;
  ports.store = &store;
  ports.models = std::move(models);
  ports.stop = std::move(stop);
  ports.leases = &leases;
  return run_with(spec, std::move(ports), laws);
}

}  // namespace dovetail::pipeline
