#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "serve/body_budget.h"
#include "serve/body_jobs.h"
#include "serve/dialog_store.h"
#include "serve/failure_log.h"
#include "serve/inbox.h"
#include "serve/kept_calls.h"
#include "serve/router.h"

namespace dovetail::serve {

class Session;

// A connection, of TCP or of a socket in the file system.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

// What all connections of a server share. Belongs to the event loop's thread, but for `jobs`, and
// for what never changes in `state`. Torn down from the last member to the first: the workers, then
// the loop with its connections, then what those refer to.
struct Core {
  Core(Backend the_backend, const ServerOptions& the_options);

  const Backend backend;
  const ServerOptions options;
  DialogStore dialogs;
  KeptAnswers calls;
  ServerState state;
  HttpCounts counts;
  std::uint32_t listeners = 0;  // of /events
  BodyBudget body_budget;
  std::unordered_set<Session*> sessions;
  bool stopping = false;                  // connections end with the response that they are at
  std::function<void()> on_last_session;  // called when no connection is left
  boost::asio::io_context io{1};
  BodyJobs jobs;  // parses, renders, tokenises and compiles
};

// One connection: reads requests one after the other (session.cpp) and responds to each
// (session_response.cpp, live_stream.cpp). Lives until its coroutine ends.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // An `overloaded` session responds with 503 and ends.
  Session(Core& core, StreamSocket socket, bool overloaded);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start();

  // Ends the connection: at once where it waits for a request, else after the present response.
  void finish();
  // Lets a response that ends while the server drains look whether it does.
  void notice_drain() { signal_.cancel(); }
  // Ends the connection at once; what it generates is cancelled.
  void abort() noexcept;

  // Whether the connection counts against max_connections.
  bool holds_slot() const { return !overloaded_ && (busy_ || !gone_); }
  // When a kept connection that waits for its next request had its last response; nothing while a
  // request is read or responded to, and before the first.
  std::optional<std::chrono::steady_clock::time_point> idle_since() const;
  // Whether something has arrived that was not read yet.
  bool has_input() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Task = boost::asio::awaitable<void>;
  // Of a response: whether the connection can take another request.
  using Reusable = boost::asio::awaitable<bool>;

  Task run();
  Reusable serve_one();
  // These two read from the socket into `buffer_`. Nothing, or false: the connection has ended.
  boost::asio::awaitable<std::optional<Outcome<HttpHead>>> read_head();
  boost::asio::awaitable<bool> read_body(const HttpHead& head, RequestBody& body, Problem& problem);
  boost::asio::awaitable<bool> fill();
  std::string_view buffered() const;
  Reusable work(const HttpHead& head, const Route& route, RequestBody body);
  // Runs `work` on a worker and waits for its end; at once where the client has gone meanwhile and
  // the work has not begun. False: too many jobs wait.
  boost::asio::awaitable<bool> on_worker(JobClass kind, std::string tenant, BodyJobs::Work work);
  Reusable generate(const HttpHead& head, const std::shared_ptr<const Generation>& generation);
  using Builder = std::shared_ptr<class ResponseBuilder>;  // with the generation
  Reusable stream(const HttpHead& head, const Generation& generation, const Builder& builder);
  Reusable gather(const HttpHead& head, const Generation& generation, const Builder& builder);
  // ResponseBuilder::add(); on a worker where much is to be written.
  boost::asio::awaitable<std::string> add_event(const Builder& builder, Inbox::Item& item);
  // What the server does, as it does it: GET /events.
  Reusable stream_live(const HttpHead& head);
  Reusable respond(const HttpHead& head, HttpResponse response);
  // The same for a body in parts, each of which is freed when it was sent.
  Reusable respond_in_parts(const HttpHead& head, std::vector<std::string> parts);
  // A response before the request was read to its end; the connection ends with it.
  Task refuse(const ApiError& error);
  // Begins a request: its route, and the headers that all that responds to it has.
  void begin(const HttpHead* head);
  // Keeps what failed for the record.
  void note_failure(int status, std::string code, std::string message);
  // Counts the response, and gives it these headers.
  HttpResponse dressed(HttpResponse response);
  // Counts what a choice got, when it is there.
  void note(const Generation& generation, std::size_t prompt, const OutputEvent& event);
  // Counts what the choices got that have not ended, and never will.
  void note_cancelled(const Generation& generation, FinishReason finish);
  // Hands the record of the request on.
  void finish_record();
  boost::asio::awaitable<bool> send(std::string_view data);
  Task wait();
  Task linger();

  // While a response is made, a read is pending that notices when the client goes away.
  void watch();
  Task stop_watching();

  void wake();
  void forget_requests() noexcept;
  // Runs a part of a handler: what it throws ends this connection, not the event loop.
  template <class Function>
  void guarded(Function&& function) noexcept;
  void arm(std::chrono::milliseconds limit);
  void disarm();
  void await_deadline();
  bool keeps_alive(const HttpHead& head) const;
  void ended(const std::exception_ptr& failure) noexcept;

  Core& core_;
  StreamSocket socket_;
  boost::beast::flat_buffer buffer_;  // read, but not yet part of a request
  boost::asio::steady_timer signal_;  // never expires: cancelled to wake the coroutine
  boost::asio::steady_timer watchdog_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<Inbox> inbox_;  // of the generation under way
  std::vector<RequestId> requests_;
  std::chrono::steady_clock::time_point responded_ = std::chrono::steady_clock::time_point::max();
  BodyJobs::Ticket job_;  // of the body under way
  // Of the request under way.
  const Route* route_ = nullptr;
  ErrorShape errors_ = ErrorShape::kOpenAi;
  std::vector<std::pair<std::string, std::string>> headers_;
  RequestRecord record_;
  bool recorded_ = true;
  std::chrono::steady_clock::time_point began_, accepted_;
  struct Choice {
    std::chrono::steady_clock::time_point last_token;  // epoch: none yet
    std::uint64_t tokens = 0;
    bool ended = false;
  };
  std::vector<Choice> choices_;  // [prompt][choice]
  bool overloaded_;
  bool busy_ = false;       // between a request's head and the end of its response
  bool gone_ = false;       // the client went away, or was sent away
  bool sent_away_ = false;  // for not reading
  bool watching_ = false;   // the read of watch() is pending
  bool stop_watch_ = false;
};

template <class Function>
void Session::guarded(Function&& function) noexcept {
  try {
    function();
  } catch (...) {
    log_failure(std::current_exception());
    abort();
  }
}

}  // namespace dovetail::serve
