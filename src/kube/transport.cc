#include "kube/transport.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "kube/credential_plugin.h"
#include "kube/login.h"
#include "kube/token_source.h"

namespace heddle::kube {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr long kConnectTimeoutMs = 10'000;
// Streams that one HTTP/2 connection may carry; kube-apiserver announces 100 by default, the smaller number counts.
constexpr long kMaxStreams = 100;
constexpr long kMaxCachedConnections = 256;
constexpr size_t kMaxIdleHandles = 256;
// A peer that does not acknowledge for so long is gone: it may have lost power, or the path to it is cut.
constexpr int kUserTimeoutMs = 30'000;
constexpr int kKeepAliveIdleSeconds = 15;
constexpr int kKeepAliveIntervalSeconds = 5;
constexpr int kKeepAliveProbes = 3;

struct CurlGlobal {
  CurlGlobal() { curl_global_init(CURL_GLOBAL_DEFAULT); }
};

struct EasyCloser {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyCloser>;

struct MultiCloser {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

struct HeaderCloser {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, HeaderCloser>;

Headers add_header(Headers headers, const std::string& line) {
  curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) return headers;
  std::ignore = headers.release();
  return Headers(longer);
}

int set_socket_options(void* /*context*/, curl_socket_t fd, curlsocktype /*purpose*/) {
  const auto set = [fd](int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof(value)); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  return CURL_SOCKOPT_OK;
}

bool is_loopback(std::string_view server) {
  const size_t start = server.find("://");
  if (start == std::string_view::npos) return false;
  const std::string_view host = server.substr(start + 3);
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

struct Running {
  Transport::ExchangeId id = 0;
  Easy easy;
  Headers headers;
  Exchange exchange;
  std::shared_ptr<ExchangeHandler> handler;  // empty once abandoned
  int* callback_depth = nullptr;             // of the transport: libcurl may not be called back from its own callbacks
  bool headers_seen = false;
  std::array<char, CURL_ERROR_SIZE> error_text{};
};

size_t receive_body(char* bytes, size_t size, size_t count, void* context) {
  auto* running = static_cast<Running*>(context);
  // A copy, because the handler may abandon the exchange while it is being called.
  const std::shared_ptr<ExchangeHandler> handler = running->handler;
  if (!handler) return 0;
  ++*running->callback_depth;
  handler->on_data(std::string_view(bytes, size * count));
  --*running->callback_depth;
  return running->handler ? size * count : 0;
}

size_t receive_header(char* bytes, size_t size, size_t count, void* context) {
  auto* running = static_cast<Running*>(context);
  const std::string_view line(bytes, size * count);
  if (line != "\r\n" && line != "\n") return line.size();
  long status = 0;
  curl_easy_getinfo(running->easy.get(), CURLINFO_RESPONSE_CODE, &status);
  const std::shared_ptr<ExchangeHandler> handler = running->handler;
  if (status < 200 || running->headers_seen || !handler) return line.size();
  running->headers_seen = true;
  ++*running->callback_depth;
  handler->on_headers(static_cast<int>(status));
  --*running->callback_depth;
  return line.size();
}

// What makes a configured handle.
class EasyFactory {
 public:
  explicit EasyFactory(const Config& config) : config_(config) {}

  [[nodiscard]] Easy make() const {
    Easy easy(curl_easy_init());
    if (!easy) return easy;
    CURL* handle = easy.get();
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    // Rather share a connection than open one more. Without TLS there is no HTTP/2 to wait for, and libcurl would wait
    // for the first answer to find out.
    curl_easy_setopt(handle, CURLOPT_PIPEWAIT, config_.server.starts_with("https://") ? 1L : 0L);
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);  // a redirect must never carry the token elsewhere
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
    curl_easy_setopt(handle, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(handle, CURLOPT_SOCKOPTFUNCTION, &set_socket_options);
    curl_easy_setopt(handle, CURLOPT_USERAGENT, config_.user_agent.c_str());
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &receive_body);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &receive_header);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 1L);
    if (!config_.proxy_url.empty()) {
      curl_easy_setopt(handle, CURLOPT_PROXY, config_.proxy_url.c_str());
    } else if (is_loopback(config_.server)) {
      curl_easy_setopt(handle, CURLOPT_PROXY, "");
    }
    set_tls(handle);
    return easy;
  }

 private:
  static void set_blob(CURL* handle, CURLoption option, const std::string& text) {
    curl_blob blob = {const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
    curl_easy_setopt(handle, option, &blob);
  }

  void set_tls(CURL* handle) const {
    curl_easy_setopt(handle, CURLOPT_CA_CACHE_TIMEOUT, 60L);  // a CA file may be replaced
    if (config_.insecure_skip_verify) {
      curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
      curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (!config_.ca_data.empty()) set_blob(handle, CURLOPT_CAINFO_BLOB, config_.ca_data);
    if (!config_.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, config_.ca_file.c_str());
    if (!config_.client_cert_data.empty()) set_blob(handle, CURLOPT_SSLCERT_BLOB, config_.client_cert_data);
    if (!config_.client_cert_file.empty()) {
      curl_easy_setopt(handle, CURLOPT_SSLCERT, config_.client_cert_file.c_str());
    }
    if (!config_.client_key_data.empty()) set_blob(handle, CURLOPT_SSLKEY_BLOB, config_.client_key_data);
    if (!config_.client_key_file.empty()) {
      curl_easy_setopt(handle, CURLOPT_SSLKEY, config_.client_key_file.c_str());
    }
  }

  Config config_;
};

// The certificate of a plugin in place of what the kubeconfig names.
void use_certificate(Config& config, const Credential& credential) {
  config.client_cert_file.clear();
  config.client_key_file.clear();
  config.client_cert_data = credential.client_cert_data;
  config.client_key_data = credential.client_key_data;
}

class CurlTransport final : public Transport {
 public:
  CurlTransport(const Config& config, const Clock& clock, std::unique_ptr<Login> login)
      : clock_(clock),
        config_(config),
        factory_(config),
        tokens_(config),
        login_(std::move(login)),
        multi_(curl_multi_init()) {
    curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
    curl_multi_setopt(multi_.get(), CURLMOPT_MAX_CONCURRENT_STREAMS, kMaxStreams);
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, kMaxCachedConnections);
    thread_ = std::thread([this] { run(); });
  }

  ~CurlTransport() override { CurlTransport::stop({}); }

  bool post(std::function<void()> task) override {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
      first = tasks_.empty();
      tasks_.push_back(std::move(task));
    }
    // One wake-up for all tasks that wait; none for those of the I/O thread itself, which looks before it sleeps.
    if (first && !on_io_thread()) curl_multi_wakeup(multi_.get());
    return true;
  }

  [[nodiscard]] bool on_io_thread() const override {
    return std::this_thread::get_id() == io_thread_.load(std::memory_order_acquire);
  }

  void stop(std::function<void()> last) override {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) {
        if (last) tasks_.push_back(std::move(last));
        closed_ = true;
        curl_multi_wakeup(multi_.get());
      }
    }
    if (thread_.joinable()) thread_.join();
  }

  ExchangeId start(Exchange exchange, std::shared_ptr<ExchangeHandler> handler) override;
  void abandon(ExchangeId id, Duration silence) override;

  TimerId after(Duration delay, std::function<void()> task) override {
    const TimerId id = ++last_timer_;
    const int64_t due = clock_.monotonic_nanos() + std::max<int64_t>(delay.nanos, 0);
    timers_.emplace(std::pair(due, id), std::move(task));
    timer_due_.emplace(id, due);
    return id;
  }

  void cancel_timer(TimerId id) override {
    const auto found = timer_due_.find(id);
    if (found == timer_due_.end()) return;
    timers_.erase({found->second, id});
    timer_due_.erase(found);
  }

 private:
  void run();
  bool run_tasks();
  bool run_timers();
  bool finish_transfers();
  [[nodiscard]] int poll_timeout_ms() const;
  void launch(ExchangeId id);
  void remove(ExchangeId id, Duration silence);
  void prepare(Running& running);
  void renew_credential();
  static void set_method(const Running& running);
  void finish(Running& running, CURLcode code);
  void give_back(Running& running);
  static Ending ending_of(const Running& running, CURLcode code);
  static void cut_if_silent(CURL* easy, Duration silence);

  const Clock& clock_;
  Config config_;
  EasyFactory factory_;
  TokenSource tokens_;
  std::unique_ptr<Login> login_;  // none: the credential is no plugin's
  std::unique_ptr<CURLM, MultiCloser> multi_;

  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_
  bool closed_ = false;                       // guarded by mutex_
  std::atomic<std::thread::id> io_thread_;

  // I/O thread only.
  std::unordered_map<ExchangeId, std::unique_ptr<Running>> running_;
  std::vector<Easy> idle_;
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, int64_t> timer_due_;
  ExchangeId last_exchange_ = 0;
  TimerId last_timer_ = 0;
  int callback_depth_ = 0;

  std::thread thread_;
};

void CurlTransport::run() {
  io_thread_.store(std::this_thread::get_id(), std::memory_order_release);
  while (true) {
    bool busy = run_tasks();
    busy = run_timers() || busy;
    int transfers = 0;
    curl_multi_perform(multi_.get(), &transfers);
    busy = finish_transfers() || busy;
    {
      const std::lock_guard lock(mutex_);
      if (closed_ && tasks_.empty()) break;
      busy = busy || !tasks_.empty();
    }
    if (!busy) curl_multi_poll(multi_.get(), nullptr, 0, poll_timeout_ms(), nullptr);
  }
  for (auto& [id, running] : running_) curl_multi_remove_handle(multi_.get(), running->easy.get());
  running_.clear();
  timers_.clear();
  io_thread_.store({}, std::memory_order_release);  // the next thread may get the same id
}

bool CurlTransport::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) {
    task();
    task = nullptr;
  }
  return !tasks.empty();
}

bool CurlTransport::run_timers() {
  bool any = false;
  const int64_t now = clock_.monotonic_nanos();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_due_.erase(node.key().second);
    node.mapped()();
    any = true;
  }
  return any;
}

int CurlTransport::poll_timeout_ms() const {
  constexpr int64_t kLongest = 60'000;
  if (timers_.empty()) return static_cast<int>(kLongest);
  const int64_t left = timers_.begin()->first.first - clock_.monotonic_nanos();
  return static_cast<int>(std::clamp<int64_t>((left + kNanosPerMilli - 1) / kNanosPerMilli, 0, kLongest));
}

Transport::ExchangeId CurlTransport::start(Exchange exchange, std::shared_ptr<ExchangeHandler> handler) {
  auto running = std::make_unique<Running>();
  const ExchangeId id = ++last_exchange_;
  running->id = id;
  running->exchange = std::move(exchange);
  running->handler = std::move(handler);
  running->callback_depth = &callback_depth_;
  running_.emplace(id, std::move(running));
  if (callback_depth_ > 0) {
    after(Duration{}, [this, id] { launch(id); });
  } else {
    launch(id);
  }
  return id;
}

void CurlTransport::renew_credential() {
  if (!login_) return;
  auto fresh = login_->renewed(clock_.now());
  if (!fresh) return;
  tokens_.replace(std::move(fresh->token));
  if (fresh->client_cert_data.empty() || fresh->client_cert_data == config_.client_cert_data) return;
  use_certificate(config_, *fresh);
  factory_ = EasyFactory(config_);
  idle_.clear();
}

void CurlTransport::launch(ExchangeId id) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  renew_credential();
  Running& running = *found->second;
  if (!idle_.empty()) {
    running.easy = std::move(idle_.back());
    idle_.pop_back();
  } else {
    running.easy = factory_.make();
  }
  if (running.easy) {
    prepare(running);
    if (curl_multi_add_handle(multi_.get(), running.easy.get()) == CURLM_OK) return;
  }
  // Later, because the caller of start() does not know the id yet.
  after(Duration{}, [this, id] {
    auto node = running_.extract(id);
    if (node.empty() || !node.mapped()->handler) return;
    node.mapped()->handler->on_done(Ending{0, Error{Code::kUnavailable, "the request could not be started", {}}, {}});
  });
}

void CurlTransport::set_method(const Running& running) {
  CURL* easy = running.easy.get();
  const Exchange& exchange = running.exchange;
  if (exchange.body.empty() && (exchange.method == Method::kGet || exchange.method == Method::kDelete)) {
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  } else {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body.size()));
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method_name(exchange.method));
}

void CurlTransport::prepare(Running& running) {
  CURL* easy = running.easy.get();
  const Exchange& exchange = running.exchange;
  set_method(running);
  // libcurl shares a connection only between equal TLS settings. These two differ in name only: with either, TLS 1.3 is
  // the most.
  constexpr long kAtLeast = CURL_SSLVERSION_TLSv1_2;
  constexpr long kAtMost = CURL_SSLVERSION_MAX_TLSv1_3;
  const long tls = exchange.pool == Pool::kWatches ? kAtLeast | kAtMost : kAtLeast;
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, tls);
  curl_easy_setopt(easy, CURLOPT_URL, (config_.server + exchange.path).c_str());
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                   static_cast<long>((exchange.timeout.nanos + kNanosPerMilli - 1) / kNanosPerMilli));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, running.error_text.data());
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &running);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &running);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &running);
  running.headers = add_header({}, "Accept: application/json");
  running.headers = add_header(std::move(running.headers), "Expect:");
  if (!exchange.body.empty()) {
    running.headers = add_header(std::move(running.headers), "Content-Type: " + exchange.content_type);
  }
  const std::string& token = tokens_.token();
  if (!token.empty()) running.headers = add_header(std::move(running.headers), "Authorization: Bearer " + token);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, running.headers.get());
}

bool CurlTransport::finish_transfers() {
  bool any = false;
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;  // message is invalid after curl_multi_remove_handle
    Running* running = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &running);
    finish(*running, code);
    any = true;
  }
  return any;
}

void CurlTransport::finish(Running& running, CURLcode code) {
  const Ending ending = ending_of(running, code);
  if (ending.status == 401 && login_) login_->refused();
  if (code == CURLE_OPERATION_TIMEDOUT) cut_if_silent(running.easy.get(), running.exchange.timeout);
  curl_multi_remove_handle(multi_.get(), running.easy.get());
  const auto node = running_.extract(running.id);
  const std::unique_ptr<Running>& ended = node.mapped();
  give_back(*ended);
  if (ended->handler) ended->handler->on_done(ending);
}

void CurlTransport::abandon(ExchangeId id, Duration silence) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  found->second->handler.reset();
  if (callback_depth_ > 0) {
    after(Duration{}, [this, id, silence] { remove(id, silence); });
  } else {
    remove(id, silence);
  }
}

void CurlTransport::remove(ExchangeId id, Duration silence) {
  const auto node = running_.extract(id);
  if (node.empty() || !node.mapped()->easy) return;
  CURL* easy = node.mapped()->easy.get();
  if (silence.nanos > 0) cut_if_silent(easy, silence);
  curl_multi_remove_handle(multi_.get(), easy);
  give_back(*node.mapped());
}

void CurlTransport::give_back(Running& running) {
  if (idle_.size() >= kMaxIdleHandles) return;
  CURL* easy = running.easy.get();
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, nullptr);
  idle_.push_back(std::move(running.easy));
}

// An HTTP/2 connection outlives its streams: one whose peer has gone silent would swallow every later request. A slow
// answer on a live connection is left alone.
void CurlTransport::cut_if_silent(CURL* easy, Duration silence) {
  curl_socket_t fd = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD) return;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (int64_t{info.tcpi_last_data_recv} * kNanosPerMilli + kNanosPerMilli >= silence.nanos) ::shutdown(fd, SHUT_RDWR);
}

Ending CurlTransport::ending_of(const Running& running, CURLcode code) {
  Ending ending;
  CURL* easy = running.easy.get();
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  ending.status = static_cast<int>(status);
  if (code != CURLE_OK) {
    curl_off_t sent_at = 0;
    curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &sent_at);
    // Without a connection nothing was sent, so it is certain that nothing took effect.
    const bool unknown = code == CURLE_OPERATION_TIMEDOUT && sent_at > 0;
    std::string text = running.error_text[0] != '\0' ? running.error_text.data() : curl_easy_strerror(code);
    ending.error = Error{unknown ? Code::kDeadlineExceeded : Code::kUnavailable,
                         std::string(method_name(running.exchange.method)) + " " + running.exchange.path + ": " + text,
                         {}};
    return ending;
  }
  curl_header* header = nullptr;
  if (status >= 400 && curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
    const std::string_view text = header->value;
    int64_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error == std::errc() && end == text.data() + text.size() && seconds >= 0 && seconds <= 3600) {
      ending.retry_after = Duration::seconds(seconds);
    }
  }
  return ending;
}

Result<void> check_file(const std::string& path, const std::string& field) {
  if (path.empty()) return {};
  auto content = read_file(path);
  if (!content) return fail(Code::kInvalidArgument, content.error().message, field);
  return {};
}

}  // namespace

const char* method_name(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  return "GET";
}

Result<std::unique_ptr<Transport>> Transport::create(Config config, const Clock& clock) {
  static const CurlGlobal global;  // libcurl's own rule: once, before threads; it holds no state of ours
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    return fail(Code::kInvalidArgument, "\"" + config.server + "\" is not http:// or https://", "server");
  }
  if (!config.ca_file.empty() && !config.ca_data.empty()) {
    return fail(Code::kInvalidArgument, "give the CA as a file or as data, not both", "ca_file");
  }
  HEDDLE_CHECK_OK(check_file(config.ca_file, "ca_file"));
  HEDDLE_CHECK_OK(check_file(config.token_file, "token_file"));
  HEDDLE_CHECK_OK(check_file(config.client_cert_file, "client_cert_file"));
  HEDDLE_CHECK_OK(check_file(config.client_key_file, "client_key_file"));
  const bool has_cert = !config.client_cert_file.empty() || !config.client_cert_data.empty();
  const bool has_key = !config.client_key_file.empty() || !config.client_key_data.empty();
  if (has_cert != has_key) {
    return fail(Code::kInvalidArgument, "a client certificate needs its key, and a key its certificate",
                "client_cert_file");
  }
  std::unique_ptr<Login> login;
  if (config.plugin) {
    // A login may open a browser and wait for a person, where there is one.
    const Duration deadline = Duration::seconds(::isatty(STDIN_FILENO) == 1 ? 300 : 60);
    HEDDLE_TRY(const Credential credential, run_credential_plugin(config, true, deadline));
    config.token = credential.token;
    if (!credential.client_cert_data.empty()) use_certificate(config, credential);
    login = Login::create(config, credential);
  }
  return std::make_unique<CurlTransport>(config, clock, std::move(login));
}

}  // namespace heddle::kube
