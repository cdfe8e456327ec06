#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dovetail::serve {

// What takes too long for the event loop, by its price. Each class has workers and a queue of its
// own, so that no class waits for another.
enum class JobClass : std::uint8_t {
  kBody,       // parse, render and tokenise: milliseconds
  kLargeBody,  // the same for a body beyond BodyJobs::kLargeBody bytes
  kGrammar,    // compile a grammar: up to a second or two; one at a time per tenant
};

// The workers of a server. In each class the oldest job goes first; of grammars, that of the tenant
// whose last turn is longest ago. All functions from any thread.
class BodyJobs {
 public:
  static constexpr std::size_t kLargeBody = std::size_t{64} << 10;

  // Set when the outcome is of no more use; the work should then return soon.
  using Work = std::function<void(const std::atomic<bool>& stop)>;
  struct Job {
    JobClass kind = JobClass::kBody;
    std::string tenant;
    Work work;                   // must not throw
    std::function<void()> done;  // called after it, on the worker
    std::atomic<bool> stop = false;
  };
  using Ticket = std::shared_ptr<Job>;

  // Jobs that may wait in each class, those under way not counted.
  struct Limits {
    std::size_t bodies = 512;
    std::size_t grammars = 256;
    std::size_t grammars_per_tenant = 64;
  };

  // Starts the workers; throws std::system_error where the system has no thread.
  explicit BodyJobs(const Limits& limits);
  ~BodyJobs();
  BodyJobs(const BodyJobs&) = delete;
  BodyJobs& operator=(const BodyJobs&) = delete;

  // Null where the queue is full: neither function is called then.
  Ticket add(JobClass kind, std::string tenant, Work work, std::function<void()> done);

  // True: the job had not begun and neither of its functions will be called. False: its stop flag
  // is set, and done() follows or was called.
  bool withdraw(const Ticket& job);

  // Drops what waits, stops what is under way and joins the workers.
  void stop();

 private:
  struct Lane {
    std::deque<Ticket> waiting;  // oldest first
    std::vector<Ticket> running;
    std::condition_variable ready;
  };

  Lane& lane(JobClass kind) { return lanes_[static_cast<std::size_t>(kind)]; }
  void start(JobClass kind);
  void serve(JobClass kind);
  std::deque<Ticket>::iterator next(Lane& lane);
  bool full(const Lane& lane, JobClass kind, const std::string& tenant) const;

  const Limits limits_;
  std::mutex mutex_;  // of what follows
  std::array<Lane, 3> lanes_;
  std::map<std::string, std::uint64_t> last_turn_;  // of tenants with grammars, running or waiting
  std::uint64_t turns_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace dovetail::serve
