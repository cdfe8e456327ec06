#include <xxhash.h>

#include <span>
#include <utility>

#include "pipeline/run/column_work.h"
#include "pipeline/run/model_client.h"
#include "pipeline/run/mutation.h"
#include "pipeline/run/response_cache.h"
#include "pipeline/run/run.h"

namespace dovetail::pipeline {
namespace {

// Nothing is wrong with the request: its model was busy or away.
bool is_worth_waiting(const Error& error) {
  return error.kind == ErrorKind::kExhausted || error.kind == ErrorKind::kUnavailable ||
         error.kind == ErrorKind::kTimeout;
}

// What is of the last attempt alone is `last`'s.
void add_attempts(Provenance& last, const Provenance& before) {
  last.attempts += before.attempts;
  last.prompt_tokens += before.prompt_tokens;
  last.completion_tokens += before.completion_tokens;
  last.cost += before.cost;
}

}  // namespace

// False: the model takes no more now.
bool Run::ask(QueueId model, Cell cell) {
  OpenRecord& record = open_.at(cell.record);
  const ColumnDescription& column = spec_.columns[cell.column];
  const auto known = record.failed.find(cell.column);
  const auto failed = known == record.failed.end() ? std::span<const FailedAttempt>()
                                                   : std::span<const FailedAttempt>(known->second);
  const auto attempt = static_cast<std::uint32_t>(failed.size());
  const std::uint64_t seed = seed_of(cell, attempt);
  const auto request = make_request(column, record.row, seed, failed);
  if (!request) {
    fail_for_good(cell, request.error());
    return true;
  }
  Hash128 key;
  if (column.cache) {
    key = response_keys_[cell.column]->of(*request);
    if (answer_from_cache(cell, key)) return true;
  }
  const Status taken = ports_.models[model].submit(
      *request, [inbox = inbox_, unheard = unheard_cost_, price = price_of(spec_.models[model]),
                 cell, key, busy = ports_.models[model].busy](Result<ModelAnswer> answer) {
        const std::uint64_t cost = answer ? cost_of(price, answer->usage) : 0;
        unheard->fetch_add(cost);
        const bool urgent = !busy || !busy();
        inbox->put(Came{cell, key, cost, std::move(answer)}, urgent);
      });
  if (taken) {
    ++under_way_;
    ++progress_.columns[cell.column].in_flight;
    ++sent_;
    note({RunEventKind::kSend, model, cell, seed, attempt});
    return true;
  }
  if (taken.error().kind == ErrorKind::kExhausted) {
    frontier_.give_back(cell);
    return false;
  }
  fail_for_good(cell, taken.error());
  return true;
}

// An answer of an earlier session whose cell has been forgotten, or was not what its column
// wants.
bool Run::answer_from_cache(Cell cell, const Hash128& key) {
  if (shared_ ? !shared_->ranges().was_begun(cell.record) : !ports_.resumes) return false;
  const auto text = ports_.store->cached(key);
  if (!text || !*text) return false;
  const auto answer = read_response(**text);
  if (!answer) return false;
  ++progress_.columns[cell.column].from_cache;
  note({.kind = RunEventKind::kCached, .cell = cell});
  take_answer(cell, *answer, {});
  return true;
}

std::uint64_t Run::seed_of(Cell cell, std::uint32_t attempt) const {
  const bool by_place = mutated(RunMutant::kSeedsByPlace);
  const std::string key = fmt::format("{}/{}/{}/{}", spec_.seed, spec_.columns[cell.column].name,
                                      by_place ? cell.record : id_of(cell.record), attempt);
  if (mutated(RunMutant::kSeedsByTurn)) return sent_;
  return XXH3_64bits(key.data(), key.size()) >> 1;  // what JSON takes everywhere
}

void Run::hear(Came& came) {
  const Cell cell = came.cell;
  const QueueId model = queues_.of_column[cell.column];
  ColumnCounts& counts = progress_.columns[cell.column];
  --under_way_;
  --counts.in_flight;
  ports_.store->spend(came.cost);
  add_cost(came.cost);
  unheard_cost_->fetch_sub(came.cost);
  // Nobody wants it any more.
  if (!open_.contains(cell.record)) return frontier_.end(cell);
  note({.kind = RunEventKind::kAnswer,
        .queue = model,
        .cell = cell,
        .number = came.answer || !is_worth_waiting(came.answer.error()) ? 0U : 1U});
  if (!came.answer) return hear_failure(cell, came.answer.error());
  const ModelAnswer& answer = *came.answer;
  counts.prompt_tokens += answer.usage.prompt_tokens;
  counts.completion_tokens += answer.usage.completion_tokens;
  Provenance provenance;
  provenance.latency_us = answer.on_wire_us;
  provenance.cost = came.cost;
  const bool kept = take_answer(cell, answer, provenance);
  if (!spec_.columns[cell.column].cache) return;
  // The value of a cell that is kept is in the store without it.
  kept ? ports_.store->remember_later(came.key, response_text(answer))
       : ports_.store->remember(came.key, response_text(answer));
}

// Makes a value of an answer (true), or asks again, or gives up.
bool Run::take_answer(Cell cell, const ModelAnswer& answer, Provenance provenance) {
  const ColumnDescription& column = spec_.columns[cell.column];
  provenance.attempts = 1;
  provenance.prompt_tokens = answer.usage.prompt_tokens;
  provenance.completion_tokens = answer.usage.completion_tokens;
  provenance.origin = origins_[cell.column];
  provenance.cut = answer.cut;
  auto value = read_answer(column, answer);
  if (value) {
    gate_.ended(false);
    add_attempts(provenance, cost_of_failed(cell));
    keep(cell, *std::move(value), provenance);
    return true;
  }
  Error error = value.error();
  if (answer.cut) error.message += "; it was cut by max_tokens";
  std::vector<FailedAttempt>& failed = open_.at(cell.record).failed[cell.column];
  failed.push_back({answer.text, error.message, provenance});
  if (!may_ask_again(column, failed)) {
    fail_for_good(cell, error);
    return false;
  }
  ++progress_.columns[cell.column].retries;
  mutated(RunMutant::kDefersForAnswer) ? defer(cell) : put_back(cell);
  return false;
}

void Run::hear_failure(Cell cell, const Error& error) {
  if (!is_worth_waiting(error)) return fail_for_good(cell, error);
  if (!salvaged_.contains({cell.record, cell.column})) return defer(cell);
  give_up(cell, error);
}

void Run::put_back(Cell cell) {
  note({.kind = RunEventKind::kPutBack, .cell = cell});
  frontier_.give_back(cell);
}

void Run::defer(Cell cell) {
  note({.kind = RunEventKind::kDefer, .cell = cell});
  deferred_.push_back(cell);
}

// A second chance for cells whose model could not be reached, when there is nothing else to do.
void Run::salvage() {
  for (const Cell cell : std::exchange(deferred_, {})) {
    salvaged_.insert({cell.record, cell.column});
    put_back(cell);
  }
}

void Run::fail_for_good(Cell cell, const Error& error) {
  gate_.ended(true);
  give_up(cell, error);
}

Provenance Run::cost_of_failed(Cell cell) const {
  const auto& all = open_.at(cell.record).failed;
  const auto known = all.find(cell.column);
  Provenance sum;
  if (known == all.end()) return sum;
  for (const FailedAttempt& attempt : known->second) {
    const Provenance before = std::exchange(sum, attempt.cost);
    add_attempts(sum, before);
  }
  return sum;
}

}  // namespace dovetail::pipeline
