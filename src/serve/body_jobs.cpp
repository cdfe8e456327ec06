#include "serve/body_jobs.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace dovetail::serve {
namespace {

constexpr int kGrammarNice = 10;

bool is_of(const BodyJobs::Ticket& job, const std::string& tenant) { return job->tenant == tenant; }

}  // namespace

BodyJobs::BodyJobs(const Limits& limits) : limits_(limits) {
  try {
    for (const JobClass kind : {JobClass::kBody, JobClass::kBody, JobClass::kLargeBody,
                                JobClass::kGrammar, JobClass::kGrammar}) {
      start(kind);
    }
  } catch (...) {
    stop();
    throw;
  }
}

BodyJobs::~BodyJobs() { stop(); }

void BodyJobs::start(JobClass kind) {
  workers_.emplace_back([this, kind] {
    // A compilation shares the cores with the model's steps, and gives way to them. On Linux this
    // is the calling thread's own value; where it is refused, nothing is lost but the courtesy.
    if (kind == JobClass::kGrammar) ::setpriority(PRIO_PROCESS, 0, kGrammarNice);
    serve(kind);
  });
}

bool BodyJobs::full(const Lane& lane, JobClass kind, const std::string& tenant) const {
  if (kind != JobClass::kGrammar) return lane.waiting.size() >= limits_.bodies;
  const auto own = std::count_if(lane.waiting.begin(), lane.waiting.end(),
                                 [&](const Ticket& job) { return is_of(job, tenant); });
  return lane.waiting.size() >= limits_.grammars ||
         static_cast<std::size_t>(own) >= limits_.grammars_per_tenant;
}

BodyJobs::Ticket BodyJobs::add(JobClass kind, std::string tenant, Work work,
                               std::function<void()> done) {
  auto job = std::make_shared<Job>();
  job->kind = kind;
  job->tenant = std::move(tenant);
  job->work = std::move(work);
  job->done = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    Lane& to = lane(kind);
    if (stopping_ || full(to, kind, job->tenant)) return nullptr;
    to.waiting.push_back(job);
  }
  lane(kind).ready.notify_one();
  return job;
}

bool BodyJobs::withdraw(const Ticket& job) {
  const std::lock_guard lock(mutex_);
  job->stop = true;
  std::deque<Ticket>& waiting = lane(job->kind).waiting;
  const auto at = std::find(waiting.begin(), waiting.end(), job);
  if (at == waiting.end()) return false;
  waiting.erase(at);
  return true;
}

// Under the lock; the end where no job may begin.
std::deque<BodyJobs::Ticket>::iterator BodyJobs::next(Lane& from) {
  auto chosen = from.waiting.end();
  std::uint64_t oldest = 0;
  for (auto at = from.waiting.begin(); at != from.waiting.end(); ++at) {
    if ((*at)->kind != JobClass::kGrammar) return at;
    const bool runs = std::any_of(from.running.begin(), from.running.end(),
                                  [&](const Ticket& job) { return is_of(job, (*at)->tenant); });
    if (runs) continue;
    const auto turn = last_turn_.find((*at)->tenant);
    const std::uint64_t when = turn == last_turn_.end() ? 0 : turn->second;
    if (chosen != from.waiting.end() && when >= oldest) continue;
    chosen = at;
    oldest = when;
  }
  return chosen;
}

void BodyJobs::serve(JobClass kind) {
  Lane& from = lane(kind);
  std::unique_lock lock(mutex_);
  while (true) {
    auto at = from.waiting.end();
    from.ready.wait(lock, [&] { return stopping_ || (at = next(from)) != from.waiting.end(); });
    if (stopping_) return;
    Ticket job = std::move(*at);
    from.waiting.erase(at);
    from.running.push_back(job);
    if (kind == JobClass::kGrammar) last_turn_[job->tenant] = ++turns_;
    lock.unlock();

    job->work(job->stop);
    job->done();
    // What the functions hold must not outlive them in a ticket that a session keeps.
    job->work = nullptr;
    job->done = nullptr;

    lock.lock();
    std::erase(from.running, job);
    if (kind != JobClass::kGrammar) continue;
    const bool waits = std::any_of(from.waiting.begin(), from.waiting.end(),
                                   [&](const Ticket& other) { return is_of(other, job->tenant); });
    if (!waits) last_turn_.erase(job->tenant);
    from.ready.notify_one();
  }
}

void BodyJobs::stop() {
  std::vector<std::thread> workers;
  std::vector<Ticket> dropped;  // destroyed without the lock: they own what their functions hold
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Lane& each : lanes_) {
      for (const Ticket& job : each.running) job->stop = true;
      dropped.insert(dropped.end(), each.waiting.begin(), each.waiting.end());
      each.waiting.clear();
      each.ready.notify_all();
    }
    workers.swap(workers_);
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace dovetail::serve
