#include "pipeline/remote/http_client.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "pipeline/remote/http_transfer.h"

namespace dovetail::pipeline {

namespace {

constexpr std::size_t kMostSpareHandles = 1024;
constexpr int kEventsPerWait = 256;

Micros steady_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool init_curl() {
  // curl_global_init is thread safe in every build we accept; a static makes it once only.
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ready;
}

}  // namespace

class HttpClient::Worker {
 public:
  explicit Worker(HttpClientOptions options)
      : options_(std::move(options)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        multi_(curl_multi_init()) {}

  Status start();
  void stop();
  RequestId submit(HttpRequest request, Callback done);
  void cancel(RequestId id);

 private:
  struct Inbox {
    std::vector<std::unique_ptr<Transfer>> requests;
    std::vector<RequestId> cancelled;
    bool stop = false;
    bool empty() const { return requests.empty() && cancelled.empty() && !stop; }
  };

  static int on_socket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static curl_socket_t on_open(void* self, curlsocktype purpose, curl_sockaddr* address);
  static int on_close(void* self, curl_socket_t socket);
  static int on_timer(CURLM* multi, long milliseconds, void* self);

  void run();
  int wait_milliseconds() const;
  bool read_inbox();
  void unwatch(curl_socket_t socket);
  void begin(std::unique_ptr<Transfer> transfer);
  void collect();
  void end(std::unordered_map<RequestId, std::unique_ptr<Transfer>>::iterator which,
           HttpResult (*result)(Transfer&, CURLcode, Micros), CURLcode code);
  void end_all();
  void wake() const;

  HttpClientOptions options_;
  Descriptor epoll_;
  Descriptor wake_;
  std::mutex mutex_;
  Inbox inbox_;
  RequestId next_id_ = 1;

  // The client's thread alone. `in_flight_` goes before `multi_`: curl points into transfers, and
  // its end closes sockets.
  // In the set of epoll_, each by a number of its own: curl closes a socket that is still
  // connecting without a word, and by the time it says so the number may be another thread's.
  std::unordered_map<curl_socket_t, Descriptor> watched_;
  MultiHandle multi_;
  std::unordered_map<RequestId, std::unique_ptr<Transfer>> in_flight_;
  std::vector<EasyHandle> spare_;
  Micros timer_ = kNever;
  std::thread thread_;
};

Status HttpClient::Worker::start() {
  if (epoll_.get() < 0 || wake_.get() < 0 || multi_ == nullptr) {
    return fail(ErrorKind::kIo, "HTTP client: {}", std::strerror(errno));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return fail(ErrorKind::kIo, "HTTP client: epoll_ctl: {}", std::strerror(errno));
  }
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &Worker::on_socket);
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &Worker::on_timer);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, options_.kept_connections);
  curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "HTTP client: no thread: {}", error.what());
  }
  return {};
}

void HttpClient::Worker::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    inbox_.stop = true;
  }
  wake();
  thread_.join();
}

void HttpClient::Worker::wake() const {
  const std::uint64_t one = 1;
  // The counter is full only if the thread is awake anyway.
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

HttpClient::RequestId HttpClient::Worker::submit(HttpRequest request, Callback done) {
  bool first = false;
  RequestId id = 0;
  const Micros now = steady_now();
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    first = inbox_.empty();
    inbox_.requests.push_back(
        std::make_unique<Transfer>(id, std::move(request), std::move(done), now));
  }
  if (first && std::this_thread::get_id() != thread_.get_id()) wake();
  return id;
}

void HttpClient::Worker::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.cancelled.push_back(id);
  }
  wake();
}

int HttpClient::Worker::on_socket(CURL*, curl_socket_t socket, int what, void* self, void*) {
  auto& worker = *static_cast<Worker*>(self);
  if (what == CURL_POLL_REMOVE) {
    worker.unwatch(socket);
    return 0;
  }
  epoll_event event{};
  event.data.fd = socket;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) event.events |= EPOLLIN;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) event.events |= EPOLLOUT;
  const auto known = worker.watched_.find(socket);
  if (known != worker.watched_.end())
    return ::epoll_ctl(worker.epoll_.get(), EPOLL_CTL_MOD, known->second.get(), &event);
  const int own = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return -1;
  const auto added = worker.watched_.try_emplace(socket, own).first;
  if (::epoll_ctl(worker.epoll_.get(), EPOLL_CTL_ADD, own, &event) == 0) return 0;
  worker.watched_.erase(added);
  return -1;
}

// A new socket may have the number of one that was closed without a word.
curl_socket_t HttpClient::Worker::on_open(void* self, curlsocktype, curl_sockaddr* address) {
  const int opened = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (opened < 0) return CURL_SOCKET_BAD;
  static_cast<Worker*>(self)->unwatch(opened);
  return opened;
}

// Sockets of connections are closed here, some without on_socket()'s having been told: the other
// number would keep the connection open.
int HttpClient::Worker::on_close(void* self, curl_socket_t socket) {
  static_cast<Worker*>(self)->unwatch(socket);
  return ::close(socket);
}

void HttpClient::Worker::unwatch(curl_socket_t socket) {
  const auto known = watched_.find(socket);
  if (known == watched_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, known->second.get(), nullptr);
  watched_.erase(known);
}

int HttpClient::Worker::on_timer(CURLM*, long milliseconds, void* self) {
  auto& worker = *static_cast<Worker*>(self);
  worker.timer_ = milliseconds < 0 ? kNever : steady_now() + milliseconds * 1000;
  return 0;
}

int HttpClient::Worker::wait_milliseconds() const {
  if (timer_ == kNever) return -1;
  const Micros left = timer_ - steady_now();
  return static_cast<int>(std::clamp<Micros>((left + 999) / 1000, 0, 60'000));
}

void HttpClient::Worker::run() {
  std::array<epoll_event, kEventsPerWait> events{};
  int running = 0;
  while (read_inbox()) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, wait_milliseconds());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.fd == wake_.get()) {
        std::uint64_t times = 0;
        static_cast<void>(::read(wake_.get(), &times, sizeof times));
        continue;
      }
      int what = 0;
      if ((event.events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
      if ((event.events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
      if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
      curl_multi_socket_action(multi_.get(), event.data.fd, what, &running);
    }
    if (timer_ != kNever && steady_now() >= timer_) {
      timer_ = kNever;
      curl_multi_socket_action(multi_.get(), CURL_SOCKET_TIMEOUT, 0, &running);
    }
    collect();
  }
  end_all();
}

bool HttpClient::Worker::read_inbox() {
  for (;;) {
    Inbox inbox;
    {
      const std::lock_guard lock(mutex_);
      if (inbox_.empty()) return true;
      std::swap(inbox, inbox_);
      inbox_.stop = inbox.stop;
    }
    for (auto& transfer : inbox.requests) begin(std::move(transfer));
    for (const RequestId id : inbox.cancelled) {
      const auto found = in_flight_.find(id);
      if (found == in_flight_.end()) continue;
      end(
          found,
          [](Transfer& transfer, CURLcode, Micros now) {
            return transfer.failure(TransportError::kCancelled, "cancelled", now);
          },
          CURLE_OK);
    }
    if (inbox.stop) return false;
  }
}

void HttpClient::Worker::begin(std::unique_ptr<Transfer> transfer) {
  EasyHandle easy;
  if (spare_.empty()) {
    easy.reset(curl_easy_init());
  } else {
    easy = std::move(spare_.back());
    spare_.pop_back();
  }
  const Micros now = steady_now();
  if (easy == nullptr) {
    transfer->finish(transfer->failure(TransportError::kOther, "out of memory", now));
    return;
  }
  if (!transfer->start(std::move(easy), options_, now)) {
    transfer->finish(transfer->failure(TransportError::kInvalid,
                                       "the method, URL or a header is not valid", now));
    return;
  }
  CURL* handle = transfer->easy();
  curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, &Worker::on_open);
  curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(handle, CURLOPT_CLOSESOCKETFUNCTION, &Worker::on_close);
  curl_easy_setopt(handle, CURLOPT_CLOSESOCKETDATA, this);
  const auto [place, added] = in_flight_.emplace(transfer->id(), std::move(transfer));
  const CURLMcode code = curl_multi_add_handle(multi_.get(), handle);
  if (code == CURLM_OK) return;
  const std::unique_ptr<Transfer> failed = std::move(place->second);
  in_flight_.erase(place);
  failed->finish(failed->failure(TransportError::kOther, curl_multi_strerror(code), now));
}

void HttpClient::Worker::collect() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    void* self = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
    const CURLcode code = message->data.result;
    const auto found = in_flight_.find(static_cast<Transfer*>(self)->id());
    if (found == in_flight_.end()) continue;
    end(
        found,
        [](Transfer& transfer, CURLcode result, Micros now) {
          return transfer.result(result, now);
        },
        code);
  }
}

void HttpClient::Worker::end(
    std::unordered_map<RequestId, std::unique_ptr<Transfer>>::iterator which,
    HttpResult (*result)(Transfer&, CURLcode, Micros), CURLcode code) {
  const std::unique_ptr<Transfer> transfer = std::move(which->second);
  in_flight_.erase(which);
  curl_multi_remove_handle(multi_.get(), transfer->easy());
  HttpResult ended = result(*transfer, code, steady_now());
  EasyHandle easy = transfer->take_easy();
  if (spare_.size() < kMostSpareHandles) {
    curl_easy_reset(easy.get());
    spare_.push_back(std::move(easy));
  }
  transfer->finish(std::move(ended));
}

void HttpClient::Worker::end_all() {
  const auto cancelled = [](Transfer& transfer, CURLcode, Micros now) {
    return transfer.failure(TransportError::kCancelled, "the client was closed", now);
  };
  while (!in_flight_.empty()) end(in_flight_.begin(), cancelled, CURLE_OK);
  // Callbacks may have submitted more.
  for (;;) {
    std::vector<std::unique_ptr<Transfer>> late;
    {
      const std::lock_guard lock(mutex_);
      std::swap(late, inbox_.requests);
    }
    if (late.empty()) return;
    for (auto& transfer : late) transfer->finish(cancelled(*transfer, CURLE_OK, steady_now()));
  }
}

HttpClient::HttpClient(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}

Result<std::unique_ptr<HttpClient>> HttpClient::create(HttpClientOptions options) {
  if (!init_curl()) return fail(ErrorKind::kUnavailable, "HTTP client: libcurl does not start");
  auto worker = std::make_unique<Worker>(std::move(options));
  if (Status started = worker->start(); !started) return fail(started.error());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(worker)));
}

HttpClient::~HttpClient() { worker_->stop(); }

HttpClient::RequestId HttpClient::submit(HttpRequest request, Callback done) {
  return worker_->submit(std::move(request), std::move(done));
}

void HttpClient::cancel(RequestId id) { worker_->cancel(id); }

}  // namespace dovetail::pipeline
