#include "kube/http_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kube/http_parser.h"
#include "kube/listen.h"
#include "kube/tls.h"

namespace heddle::kube {
namespace {

constexpr size_t kReadBytes = size_t{16} << 10;
constexpr uint64_t kListenerKey = 0;
constexpr uint64_t kWakeKey = 1;
constexpr uint64_t kFirstConnection = 2;
constexpr int kDeadlineCheckMs = 500;
constexpr Duration kDrainTime = Duration::seconds(2);
constexpr Duration kStopGrace = Duration::seconds(5);

// kDraining: the answer is sent and the stream will close; what still comes is thrown away, for closing on unread bytes
// would reset the connection and lose the answer.
enum class Phase { kReading, kWriting, kDraining };
enum class Step { kGoOn, kParked, kRequeue, kDrop };

struct Connection {
  Connection(uint64_t number, std::unique_ptr<ByteStream> bytes, size_t max_body)
      : id(number), stream(std::move(bytes)), parser(max_body) {}

  uint64_t id;
  std::unique_ptr<ByteStream> stream;
  HttpParser parser;
  Phase phase = Phase::kReading;
  std::string in;
  std::string out;
  size_t sent = 0;
  bool in_request = true;  // its time-out runs; false between requests
  bool close_after = false;
  int64_t deadline = 0;
  std::string peer;
  int64_t uid = -1;
};

// One thread accepts and waits for all sockets; a connection that can move on goes to a worker, which does what is
// possible without waiting and hands it back. So every connection has one owner at a time: the poller's map, the queue
// or a worker.
class PollingServer final : public HttpServer {
 public:
  PollingServer(HttpServerOptions options, HttpHandler handler, const Logger& log, Listener listener,
                std::shared_ptr<const TlsContext> tls)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        log_(log),
        listener_(std::move(listener)),
        port_(listener_.port),
        tls_(std::move(tls)) {}

  ~PollingServer() override { PollingServer::stop(); }

  Result<void> run();
  [[nodiscard]] uint16_t port() const override { return port_; }
  Result<void> set_certificate(const std::string& certificate_pem, const std::string& key_pem) override;
  void stop() override;

 private:
  using Owned = std::unique_ptr<Connection>;

  void poll_loop();
  void accept_all();
  void wake();
  [[nodiscard]] int64_t now() const { return clock_.monotonic_nanos(); }
  void make_ready(uint64_t id);
  void drop_expired();
  void drop_idle();
  void park(Owned connection, StreamState wanted);
  void enqueue(Owned connection);
  void drop(Owned connection);

  void work_loop();
  void serve(Owned connection);
  Step read_step(Owned& connection);
  Step write_step(Owned& connection);
  Step drain_step(Owned& connection);
  void answer_request(Connection& connection);
  void refuse(Connection& connection, int status, std::string_view text);
  HttpResponse call_handler(const HttpRequest& request);
  void begin_answer(Connection& connection, const HttpResponse& response, std::string_view method);

  HttpServerOptions options_;
  HttpHandler handler_;
  const Logger& log_;
  SystemClock clock_;
  Listener listener_;
  uint16_t port_;
  UniqueFd epoll_;
  UniqueFd wake_;

  std::mutex mutex_;
  std::condition_variable ready_changed_;
  std::shared_ptr<const TlsContext> tls_;       // guarded by mutex_
  std::unordered_map<uint64_t, Owned> parked_;  // guarded by mutex_
  std::deque<Owned> ready_;                     // guarded by mutex_
  size_t open_ = 0;                             // guarded by mutex_: parked, ready and in work
  uint64_t next_id_ = kFirstConnection;         // guarded by mutex_
  bool workers_end_ = false;                    // guarded by mutex_
  std::atomic<bool> stopping_{false};
  std::mutex stop_mutex_;

  std::vector<std::thread> threads_;
};

Result<void> PollingServer::run() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return fail_errno("epoll", errno);
  const auto add = [this](int fd, uint64_t key) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = key;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  if (!add(listener_.fd.get(), kListenerKey) || !add(wake_.get(), kWakeKey)) return fail_errno("epoll", errno);
  for (int i = 0; i < std::max(options_.threads, 1); ++i) threads_.emplace_back([this] { work_loop(); });
  threads_.emplace_back([this] { poll_loop(); });
  return {};
}

Result<void> PollingServer::set_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  HEDDLE_TRY(auto context, TlsContext::create(certificate_pem, key_pem));
  const std::lock_guard lock(mutex_);
  if (!tls_) return fail(Code::kInvalidArgument, "this server was started without TLS");
  tls_ = std::move(context);
  return {};
}

void PollingServer::wake() {
  const uint64_t one = 1;
  std::ignore = ::write(wake_.get(), &one, sizeof(one));
}

void PollingServer::stop() {
  const std::lock_guard lock(stop_mutex_);
  if (threads_.empty()) return;
  stopping_ = true;
  wake();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  parked_.clear();
  // Not that of another server, which found the path free after somebody had removed ours.
  if (!options_.unix_socket.empty() && inode_of(options_.unix_socket) == listener_.inode) {
    ::unlink(options_.unix_socket.c_str());
  }
}

void PollingServer::poll_loop() {
  std::array<epoll_event, 64> events{};
  int64_t give_up = 0;
  while (true) {
    int timeout = -1;
    {
      const std::lock_guard lock(mutex_);
      if (open_ > 0) timeout = kDeadlineCheckMs;
      if (give_up > 0 && (open_ == 0 || now() > give_up)) break;
    }
    if (give_up > 0) timeout = timeout < 0 ? 0 : timeout;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < count; ++i) {
      const uint64_t key = events.at(static_cast<size_t>(i)).data.u64;
      if (key == kListenerKey) accept_all();
      if (key >= kFirstConnection) make_ready(key);
      if (key != kWakeKey) continue;
      uint64_t value = 0;
      std::ignore = ::read(wake_.get(), &value, sizeof(value));
    }
    drop_expired();
    if (!stopping_) continue;
    if (give_up == 0) {
      give_up = now() + kStopGrace.nanos;
      listener_.fd.reset();
    }
    drop_idle();
  }
  const std::lock_guard lock(mutex_);
  workers_end_ = true;
  ready_changed_.notify_all();
}

void PollingServer::accept_all() {
  while (listener_.fd.valid()) {
    UniqueFd fd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      // Out of descriptors: the listener stays readable, so give the others a moment to end instead of spinning.
      if (errno == EMFILE || errno == ENFILE) {
        log_.warning("no file descriptor left for a connection");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
      return;
    }
    const std::lock_guard lock(mutex_);
    if (open_ >= options_.max_connections) {
      log_.warning("too many connections: one was closed", {{"limit", static_cast<int64_t>(open_)}});
      continue;
    }
    const int raw = fd.get();
    auto stream = ByteStream::create(std::move(fd), tls_);
    if (!stream) continue;
    auto connection = std::make_unique<Connection>(next_id_++, std::move(stream), options_.max_body_bytes);
    connection->peer = peer_name(raw);
    connection->uid = peer_uid(raw);
    connection->deadline = now() + options_.request_timeout.nanos;
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
    event.data.u64 = connection->id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, raw, &event) != 0) continue;
    ++open_;
    parked_.emplace(connection->id, std::move(connection));
  }
}

void PollingServer::make_ready(uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto node = parked_.extract(id);
  if (node.empty()) return;
  ready_.push_back(std::move(node.mapped()));
  ready_changed_.notify_one();
}

void PollingServer::drop_expired() {
  const int64_t time = now();
  const std::lock_guard lock(mutex_);
  open_ -= std::erase_if(parked_, [time](const auto& entry) { return entry.second->deadline <= time; });
}

void PollingServer::drop_idle() {
  const std::lock_guard lock(mutex_);
  open_ -= std::erase_if(parked_, [](const auto& entry) { return entry.second->phase == Phase::kReading; });
}

void PollingServer::park(Owned connection, StreamState wanted) {
  if (connection->deadline <= now()) return drop(std::move(connection));
  epoll_event event = {};
  event.events = EPOLLONESHOT | (wanted == StreamState::kWantWrite ? EPOLLOUT : EPOLLIN | EPOLLRDHUP);
  const uint64_t id = connection->id;
  event.data.u64 = id;
  const int fd = connection->stream->fd();
  {
    // One step: the poller must find it when its event comes, and must not close it before it is armed.
    const std::lock_guard lock(mutex_);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) {
      parked_.emplace(id, std::move(connection));
    }
  }
  if (connection) return drop(std::move(connection));
  if (stopping_) wake();
}

void PollingServer::enqueue(Owned connection) {
  const std::lock_guard lock(mutex_);
  ready_.push_back(std::move(connection));
  ready_changed_.notify_one();
}

void PollingServer::drop(Owned connection) {
  connection.reset();
  {
    const std::lock_guard lock(mutex_);
    --open_;
  }
  if (stopping_) wake();
}

void PollingServer::work_loop() {
  while (true) {
    Owned connection;
    {
      std::unique_lock lock(mutex_);
      ready_changed_.wait(lock, [this] { return !ready_.empty() || workers_end_; });
      if (ready_.empty()) return;
      connection = std::move(ready_.front());
      ready_.pop_front();
    }
    serve(std::move(connection));
  }
}

void PollingServer::serve(Owned connection) {
  Step step = Step::kGoOn;
  while (step == Step::kGoOn) {
    switch (connection->phase) {
      case Phase::kReading:
        step = read_step(connection);
        break;
      case Phase::kWriting:
        step = write_step(connection);
        break;
      case Phase::kDraining:
        step = drain_step(connection);
        break;
    }
  }
  if (step == Step::kDrop) drop(std::move(connection));
  if (step == Step::kRequeue) enqueue(std::move(connection));
}

Step PollingServer::read_step(Owned& owned) {
  Connection& connection = *owned;
  if (!connection.in.empty()) {
    if (!connection.in_request) {
      connection.in_request = true;
      connection.deadline = now() + options_.request_timeout.nanos;
    }
    const HttpParser::State state = connection.parser.feed(connection.in);
    if (state == HttpParser::State::kComplete) {
      answer_request(connection);
      return Step::kGoOn;
    }
    if (state == HttpParser::State::kBad) {
      refuse(connection, connection.parser.error_status(), "the request cannot be read");
      return Step::kGoOn;
    }
    if (connection.parser.take_expect_continue()) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      const auto moved = connection.stream->write(kContinue.data(), kContinue.size());
      if (moved.bytes != kContinue.size()) return Step::kDrop;
    }
  }
  std::array<char, kReadBytes> buffer;
  const auto moved = connection.stream->read(buffer.data(), buffer.size());
  if (moved.state == StreamState::kEnd) return Step::kDrop;
  if (moved.state == StreamState::kOk) {
    connection.in.append(buffer.data(), moved.bytes);
    return Step::kGoOn;
  }
  park(std::move(owned), moved.state);
  return Step::kParked;
}

Step PollingServer::write_step(Owned& owned) {
  Connection& connection = *owned;
  while (connection.sent < connection.out.size()) {
    const auto moved =
        connection.stream->write(connection.out.data() + connection.sent, connection.out.size() - connection.sent);
    if (moved.state == StreamState::kEnd) return Step::kDrop;
    if (moved.state != StreamState::kOk) {
      park(std::move(owned), moved.state);
      return Step::kParked;
    }
    connection.sent += moved.bytes;
  }
  connection.out = {};
  connection.sent = 0;
  if (connection.close_after) {
    connection.stream->finish();
    connection.phase = Phase::kDraining;
    connection.deadline = now() + kDrainTime.nanos;
    return Step::kGoOn;
  }
  connection.phase = Phase::kReading;
  connection.parser = HttpParser(options_.max_body_bytes);
  connection.in_request = false;
  connection.deadline = now() + options_.idle_timeout.nanos;
  // Others that wait come first; a client that sends one request after the other must not keep the worker.
  return connection.in.empty() ? Step::kGoOn : Step::kRequeue;
}

Step PollingServer::drain_step(Owned& owned) {
  std::array<char, kReadBytes> buffer;
  const auto moved = owned->stream->read(buffer.data(), buffer.size());
  if (moved.state == StreamState::kEnd || owned->deadline <= now()) return Step::kDrop;
  if (moved.state == StreamState::kOk) return Step::kRequeue;
  park(std::move(owned), moved.state);
  return Step::kParked;
}

void PollingServer::answer_request(Connection& connection) {
  const bool keep_alive = connection.parser.keep_alive();
  auto request = connection.parser.take_request();
  if (!request) return refuse(connection, 400, request.error().message);
  request->peer = connection.peer;
  request->peer_uid = connection.uid;
  const HttpResponse response = call_handler(*request);
  connection.close_after = !keep_alive || stopping_;
  begin_answer(connection, response, request->method);
}

HttpResponse PollingServer::call_handler(const HttpRequest& request) {
  std::string why;
  try {
    return handler_(request);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "an exception of unknown type";
  }
  log_.error("a request handler threw", {{"method", request.method}, {"path", request.path}, {"why", why}});
  return {500, "text/plain", "internal error\n", {}};
}

void PollingServer::refuse(Connection& connection, int status, std::string_view text) {
  connection.close_after = true;
  begin_answer(connection, HttpResponse{status, "text/plain", std::string(text) + "\n", {}}, "GET");
}

void PollingServer::begin_answer(Connection& connection, const HttpResponse& response, std::string_view method) {
  connection.out = format_response(response, method, connection.close_after ? "close" : "keep-alive");
  connection.sent = 0;
  connection.phase = Phase::kWriting;
  connection.deadline = now() + options_.write_timeout.nanos;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, HttpHandler handler,
                                                      const Logger& log) {
  std::shared_ptr<const TlsContext> tls;
  if (!options.certificate_pem.empty() || !options.key_pem.empty()) {
    HEDDLE_TRY(tls, TlsContext::create(options.certificate_pem, options.key_pem));
  }
  HEDDLE_TRY(Listener listener, open_listener(options));
  auto server =
      std::make_unique<PollingServer>(std::move(options), std::move(handler), log, std::move(listener), std::move(tls));
  HEDDLE_CHECK_OK(server->run());
  return server;
}

}  // namespace heddle::kube
