#include <fmt/core.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "serve/api_error.h"
#include "serve/http_message.h"
#include "serve/live.h"
#include "serve/session.h"

namespace dovetail::serve {
namespace {

ApiError too_many_listeners(std::uint32_t most) {
  ApiError error;
  error.status = 503;
  error.code = "too_many_listeners";
  error.message =
      fmt::format("{} clients listen to /events, which is as many as may; try again later", most);
  error.retry_after = 10;
  return error;
}

// One of Core::listeners, as long as it lives.
class ListenerSlot {
 public:
  explicit ListenerSlot(std::uint32_t& listeners) : listeners_(listeners) { ++listeners_; }
  ~ListenerSlot() { --listeners_; }
  ListenerSlot(const ListenerSlot&) = delete;
  ListenerSlot& operator=(const ListenerSlot&) = delete;

 private:
  std::uint32_t& listeners_;
};

LiveSnapshot snapshot(const Core& core) {
  return {core.backend.stats(), core.counts.first_token, core.counts.between_tokens,
          std::chrono::steady_clock::now()};
}

}  // namespace

// An event at once and then one every interval, until the client goes or the server is about to
// stop. The next event is made when the last one was sent: nothing piles up.
Session::Reusable Session::stream_live(const HttpHead& head) {
  if (core_.listeners >= core_.options.max_listeners) {
    HttpResponse response = error_response(too_many_listeners(core_.options.max_listeners));
    co_return co_await respond(head, std::move(response));
  }
  const Framing framing = head.http_1_0 ? Framing::kClose : Framing::kChunked;
  const bool keep = framing == Framing::kChunked && keeps_alive(head);
  std::string out = response_head(dressed(event_stream_response()), framing, 0, keep);
  if (head.method == "HEAD") {
    const bool sent = co_await send(out);
    if (sent && !keep) co_await linger();
    co_return sent&& keep;
  }
  const ListenerSlot slot(core_.listeners);
  watch();
  LiveSnapshot before = snapshot(core_);
  LiveSnapshot now = before;
  bool sent = true;
  bool last = false;
  while (true) {
    last = core_.state.draining || core_.stopping;
    std::string event = live_event(before, now, last);
    out += framing == Framing::kChunked ? chunk(event) : event;
    if (last && framing == Framing::kChunked) out += kLastChunk;
    sent = co_await send(out);
    if (!sent || last || gone_) break;
    out.clear();
    // Whatever wakes the coroutine before the time has come, it waits on.
    const auto due = now.time + core_.options.live_interval;
    while (!gone_ && !core_.state.draining && !core_.stopping &&
           std::chrono::steady_clock::now() < due) {
      signal_.expires_at(due);
      co_await signal_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    if (gone_) break;
    before = std::exchange(now, snapshot(core_));
  }
  co_await stop_watching();
  if (!sent || gone_) co_return false;
  co_await linger();  // it ended because the server is about to stop
  co_return false;
}

}  // namespace dovetail::serve
