#include "serve/fake_engine.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "grammar/compiler.h"

namespace dovetail::serve {
namespace {
constexpr std::chrono::seconds kEnginePatience{10};
}

void FakeEngine::counting(FakeEngine& engine, const Accepted& accepted) {
  const std::int32_t tokens = accepted.request.max_tokens;
  for (std::int32_t token = 0; token < tokens; ++token) {
    for (std::int32_t choice = 0; choice < accepted.request.n; ++choice) {
      OutputEvent event;
      event.choice = choice;
      event.text = fmt::format("{}:{} ", choice, token);
      OutputToken output;
      output.id = 'a' + token % 26;
      output.logprob = -0.5F;
      for (std::int32_t top = 0; top < accepted.request.logprobs; ++top) {
        output.top.push_back({'a' + (token + top) % 26, -0.5F - static_cast<float>(top)});
      }
      event.tokens.push_back(output);
      if (token + 1 == tokens) event.finish = FinishReason::kLength;
      engine.emit(accepted.id, std::move(event));
    }
  }
}

Backend FakeEngine::backend() {
  Backend backend;
  backend.model.name = "fake";
  backend.model.max_context = 4096;
  backend.model.vocab_size = 256;
  backend.model.bos_text = "<s>";
  backend.model.eos_text = "</s>";
  backend.submit = [this](const std::vector<Request>& requests, const GroupSink& sink) {
    return submit(requests, sink);
  };
  backend.cancel = [this](RequestId id) { cancel(id); };
  backend.drain = [this](std::chrono::milliseconds limit) { return drain(limit); };
  backend.stats = [this] {
    const std::lock_guard lock(mutex_);
    EngineStats stats;
    stats.steps = 7;
    stats.running = static_cast<std::uint32_t>(running_.size());
    stats.requests_cancelled = cancelled_;
    stats.step_seconds = 0.25;
    return stats;
  };
  backend.health = [this](std::chrono::milliseconds) {
    const std::lock_guard lock(mutex_);
    return health_.value_or(EngineHealth{});
  };
  backend.encode = [](std::string_view text, bool add_special, bool) {
    std::vector<TokenId> ids;
    if (add_special) ids.push_back(1);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  };
  backend.begin_ids = [] { return std::vector<TokenId>{1}; };
  backend.encode_pair =
      [](std::string_view first,
         std::string_view second) -> Result<std::pair<std::vector<TokenId>, std::size_t>> {
    std::vector<TokenId> ids = {1};
    for (const char c : first) ids.push_back(static_cast<unsigned char>(c));
    ids.push_back(2);
    const std::size_t at = ids.size();
    for (const char c : second) ids.push_back(static_cast<unsigned char>(c));
    return std::pair{std::move(ids), at};
  };
  backend.decode = [](std::span<const TokenId> ids, bool) {
    std::string text;
    for (const TokenId id : ids) text += static_cast<char>(id);
    return text;
  };
  // One for each backend: what one test has compiled, another does not know.
  const auto compiler = std::make_shared<grammar::Compiler>([] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    const std::vector<TokenId> ends = {0};
    return std::make_shared<const grammar::Vocabulary>(
        grammar::Vocabulary::create(tokens, ends).value());
  }());
  const auto source_kind = [](GrammarKind kind) {
    return kind == GrammarKind::kRegex        ? grammar::SourceKind::kRegex
           : kind == GrammarKind::kJsonSchema ? grammar::SourceKind::kJsonSchema
           : kind == GrammarKind::kStructure  ? grammar::SourceKind::kStructure
           : kind == GrammarKind::kGbnf       ? grammar::SourceKind::kGbnf
                                              : grammar::SourceKind::kJsonObject;
  };
  backend.compile = [source_kind, compiler](GrammarKind kind, std::string_view text,
                                            const std::atomic<bool>& stop) {
    return compiler->compile(source_kind(kind), text, &stop);
  };
  backend.find_grammar = [source_kind, compiler](GrammarKind kind, std::string_view text) {
    return compiler->find(source_kind(kind), text);
  };
  backend.token_bytes = [](TokenId id) { return std::string(1, static_cast<char>(id)); };
  backend.encode_chat = [encode = backend.encode](const text::MarkedText& text) {
    return encode(text.text, false, true);
  };
  backend.render_chat = [](const nlohmann::ordered_json& variables,
                           std::span<const text::MarkedText> contents) -> Result<text::MarkedText> {
    text::MarkedText text;
    std::size_t index = 0;
    for (const auto& message : variables["messages"]) {
      const std::size_t its = index++;
      const auto role = message["role"].get<std::string>();
      if (role == "alien") return fail(ErrorKind::kInvalid, "line 1, column 7: no such role");
      text.append_trusted("[" + role + "]");
      if (!message["content"].is_string()) continue;
      if (contents.empty()) {
        text.append_from_outside(message["content"].get<std::string>());
      } else {
        text.append(contents[its]);
      }
    }
    if (variables.value("enable_thinking", false)) text.append_trusted("[think]");
    if (variables["add_generation_prompt"].get<bool>()) text.append_trusted("[assistant]");
    return text;
  };
  const auto render = [&backend](const Json& variables) -> Result<std::string> {
    auto rendered = backend.render_chat(variables, {});
    if (!rendered) return fail(rendered.error());
    return std::move(rendered->text);
  };
  backend.dialog = dialog::DialogFormat::detect({"", render, {}});
  return backend;
}

void FakeEngine::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void FakeEngine::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

Result<std::vector<RequestId>> FakeEngine::submit(const std::vector<Request>& requests,
                                                  const GroupSink& sink) {
  std::vector<Accepted> all;
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    if (refusal_) return fail(*refusal_);
    if (draining_) return fail(ErrorKind::kUnavailable, "the engine is draining");
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      Accepted accepted = {next_++, request,
                           [sink, i](OutputEvent event) { sink(i, std::move(event)); }};
      Running running;
      running.accepted = accepted;
      running.open = request.n;
      running.completion.assign(static_cast<std::size_t>(request.n), 0);
      running.ended.assign(static_cast<std::size_t>(request.n), false);
      running_.emplace(accepted.id, std::move(running));
      requests_.push_back(request);
      ids.push_back(accepted.id);
      all.push_back(std::move(accepted));
    }
  }
  for (Accepted& accepted : all)
    run([this, accepted = std::move(accepted)] { script_(*this, accepted); });
  return ids;
}

void FakeEngine::emit(RequestId id, OutputEvent event) {
  EventSink sink;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    Running& running = found->second;
    const auto choice = static_cast<std::size_t>(event.choice);
    if (running.ended[choice]) return;
    running.completion[choice] += static_cast<std::uint32_t>(event.tokens.size());
    event.request = id;
    event.usage = {static_cast<std::uint32_t>(running.accepted.request.prompt.size()), 2,
                   running.completion[choice]};
    sink = running.accepted.sink;
    if (event.finish) {
      running.ended[choice] = true;
      if (--running.open == 0) running_.erase(found);
    }
  }
  sink(std::move(event));
  changed_.notify_all();
}

void FakeEngine::finish(RequestId id, std::int32_t choice, FinishReason reason) {
  OutputEvent event;
  event.choice = choice;
  event.finish = reason;
  if (reason == FinishReason::kError) event.error = {ErrorKind::kInternal, "the model broke"};
  emit(id, std::move(event));
}

void FakeEngine::cancel(RequestId id) {
  std::int32_t n = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    n = found->second.accepted.request.n;
    ++cancelled_;
  }
  changed_.notify_all();
  run([this, id, n] {
    for (std::int32_t choice = 0; choice < n; ++choice) {
      finish(id, choice, FinishReason::kCancelled);
    }
  });
}

bool FakeEngine::drain(std::chrono::milliseconds limit) {
  std::vector<RequestId> left;
  {
    std::unique_lock lock(mutex_);
    draining_ = true;
    if (changed_.wait_for(lock, limit, [this] { return running_.empty(); })) return true;
    for (const auto& [id, unused] : running_) left.push_back(id);
  }
  for (const RequestId id : left) cancel(id);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kEnginePatience, [this] { return running_.empty(); });
  return false;
}

void FakeEngine::refuse_with(Error error) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(error);
}

void FakeEngine::set_health(EngineHealth health) {
  const std::lock_guard lock(mutex_);
  health_ = std::move(health);
}

bool FakeEngine::wait_submitted(std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kEnginePatience, [&] { return requests_.size() >= count; });
}

bool FakeEngine::wait_cancelled(std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kEnginePatience, [&] { return cancelled_ >= count; });
}

std::size_t FakeEngine::submitted() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

std::size_t FakeEngine::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

Request FakeEngine::request(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return requests_.at(index);
}

RequestId FakeEngine::last_id() const {
  const std::lock_guard lock(mutex_);
  return next_ - 1;
}

OutputEvent token(std::string text) {
  OutputEvent event;
  event.text = std::move(text);
  event.tokens.push_back({'a', -0.5F, {}});
  return event;
}

}  // namespace dovetail::serve
