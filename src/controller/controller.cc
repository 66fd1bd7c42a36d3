#include "controller/controller.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "controller/admission.h"
#include "controller/certificates.h"
#include "controller/event_queue.h"
#include "controller/metrics.h"
#include "controller/watches.h"
#include "kube/http_server.h"
#include "kube/lease.h"

namespace heddle::controller {
namespace {

constexpr int64_t kLongestWait = 1'000'000'000;  // of the owner thread, so that certificates are looked at
constexpr int64_t kCertificateCheck = 60'000'000'000;
constexpr int64_t kStatsInterval = 1'000'000'000;

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

kube::HttpResponse plain(int status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text), {}};
}

class Running final : public Controller {
 public:
  Running(ControllerOptions options, kube::Client& client, const Clock& clock, const Logger& log)
      : options_(std::move(options)),
        client_(client),
        clock_(clock),
        log_(log),
        reconciler_(options_.reconciler, clock, log),
        quota_table_(options_.reconciler.rules),
        sender_(client, queue_, options_.limits, options_.die_at, [this] { return may_write(); }),
        watches_(client, queue_, clock, log,
                 [this](std::set<std::string> kinds) { reconciler_.see_gang_kinds(std::move(kinds)); }) {}

  ~Running() override;

  Result<void> open();

  [[nodiscard]] uint16_t webhook_port() const override { return webhook_ ? webhook_->port() : 0; }
  [[nodiscard]] uint16_t metrics_port() const override { return metrics_server_->port(); }

 private:
  [[nodiscard]] bool may_write() const;
  void leadership(bool leads);
  void begin_leading();
  void loop();
  void apply(Event event);
  void apply(ObjectEvent event);
  void upsert(Object object);
  void remove(ObjectKind kind, const std::string& key, const std::string& uid);
  void publish_quotas();
  void use_certificate(const CertificatePair& pair);
  kube::HttpResponse review(const kube::HttpRequest& request);
  kube::HttpResponse observe(const kube::HttpRequest& request);
  kube::HttpResponse explain(const std::string& key);

  ControllerOptions options_;
  kube::Client& client_;
  const Clock& clock_;
  const Logger& log_;

  EventQueue queue_;
  Metrics metrics_;
  std::mutex shared_mutex_;
  std::shared_ptr<const QuotaTable> quotas_;
  std::unique_ptr<kube::HttpServer> webhook_;  // from the first certificate on
  std::atomic<bool> webhook_open_{false};
  std::atomic<bool> leading_{false};
  std::atomic<bool> has_lease_{false};

  // The owner thread's.
  Reconciler reconciler_;
  QuotaTable quota_table_;
  uint64_t leaderships_ = 0;

  Sender sender_;
  Watches watches_;
  std::unique_ptr<CertificateKeeper> certificates_;
  std::unique_ptr<kube::HttpServer> metrics_server_;
  std::mutex lease_mutex_;
  std::unique_ptr<kube::LeaderLease> lease_;
  std::thread owner_;
};

bool Running::may_write() const {
  if (options_.election == Election::kNone) return true;
  return has_lease_.load() && lease_->is_leader();
}

Result<void> Running::open() {
  kube::HttpServerOptions metrics;
  metrics.address = options_.metrics_address;
  metrics.port = options_.metrics_port;
  metrics.threads = 2;
  HEDDLE_TRY(metrics_server_,
             kube::HttpServer::start(metrics, [this](const kube::HttpRequest& r) { return observe(r); }, log_));
  watches_.start([] {});
  CertificateOptions certificates;
  certificates.name_space = options_.name_space;
  certificates.secret = options_.webhook_secret;
  certificates.configuration = options_.webhook_configuration;
  certificates.names = options_.webhook_names;
  const std::string service = options_.webhook_service + "." + options_.name_space + ".svc";
  certificates.names.insert(certificates.names.begin(), {service, service + ".cluster.local"});
  certificates_ = CertificateKeeper::start(
      std::move(certificates), client_, clock_, log_, [this] { return may_write(); },
      [this](const CertificatePair& pair) { use_certificate(pair); });
  owner_ = std::thread([this] { loop(); });
  if (options_.election == Election::kNone) {
    leadership(true);
    return {};
  }
  kube::LeaseOptions lease;
  lease.name_space = options_.name_space;
  lease.identity = options_.identity;
  lease_ = kube::LeaderLease::start(std::move(lease), client_, clock_, log_, [this](bool leads) { leadership(leads); });
  has_lease_.store(true);
  return {};
}

Running::~Running() {
  has_lease_.store(false);  // no write begins from here on
  sender_.drop_waiting();
  certificates_.reset();  // after this no callback touches the webhook
  if (webhook_) webhook_->stop();
  if (metrics_server_) metrics_server_->stop();
  queue_.close();
  if (owner_.joinable()) owner_.join();
  // Last: what was sent before is bounded by its own timeout, which the next leader waits for.
  lease_.reset();
}

void Running::leadership(bool leads) {
  queue_.push(TaskEvent{[this, leads] {
    ++leaderships_;
    leading_.store(false);
    if (leads) return begin_leading();
    log_.warning("no longer the leader");
    sender_.drop_waiting();
    reconciler_.resign();
  }});
}

// Everything is listed again: what another leader wrote until its end must be known before the first decision.
void Running::begin_leading() {
  log_.info("leading; reading the cluster anew");
  reconciler_.resign();
  watches_.start([this, mine = leaderships_] {
    if (mine != leaderships_) return;
    leading_.store(true);
    log_.info("in step with the cluster", {{"claims", reconciler_.ledger().claims().size()}});
    reconciler_.lead();
    if (certificates_) certificates_->check();
  });
}

void Running::loop() {
  int64_t next_check = 0;
  int64_t next_stats = 0;
  while (true) {
    int64_t wait = kLongestWait;
    if (const auto timer = reconciler_.next_timer_nanos()) {
      wait = std::clamp<int64_t>(*timer - clock_.monotonic_nanos(), 0, kLongestWait);
    }
    std::vector<Event> events = queue_.pop(wait);
    if (events.empty() && queue_.closed()) return;
    for (Event& event : events) apply(std::move(event));
    watches_.look_if_due();
    if (reconciler_.gang_look_due() && watches_.look_now()) reconciler_.begin_gang_look();
    sender_.send(reconciler_.run());
    const int64_t now = clock_.monotonic_nanos();
    if (now >= next_stats) {
      metrics_.update(reconciler_.take_stats());
      next_stats = now + kStatsInterval;
    }
    if (now >= next_check && leading_.load() && certificates_) {
      certificates_->check();
      next_check = now + kCertificateCheck;
    }
  }
}

void Running::apply(Event event) {
  std::visit(Overloaded{[this](ObjectEvent&& object) { apply(std::move(object)); },
                        [this](AnswerEvent&& answer) { reconciler_.finish(answer.write_id, std::move(answer.answer)); },
                        [](TaskEvent&& task) { task.task(); }},
             std::move(event));
}

void Running::apply(ObjectEvent event) {
  if (const Removed* removed = std::get_if<Removed>(&event.what)) return remove(event.kind, event.key, removed->uid);
  upsert(std::get<Object>(std::move(event.what)));
}

void Running::upsert(Object object) {
  std::visit(
      Overloaded{[this](model::Pod&& pod) { reconciler_.upsert_pod(std::move(pod)); },
                 [this](model::Node&& node) { reconciler_.upsert_node(std::move(node)); },
                 [this](model::ResourceSlice&& slice) { reconciler_.upsert_slice(std::move(slice)); },
                 [this](model::DeviceClass&& device_class) { reconciler_.upsert_class(std::move(device_class)); },
                 [this](model::ResourceClaim&& claim) { reconciler_.upsert_claim(std::move(claim)); },
                 [this](Quota&& quota) {
                   quota_table_.upsert(quota);
                   reconciler_.upsert_quota(std::move(quota));
                   publish_quotas();
                 },
                 [this](model::Namespace&& name_space) { reconciler_.upsert_namespace(name_space); },
                 [this](QueueObject&& queue) { reconciler_.upsert_queue(std::move(queue)); },
                 [this](ReservationObject&& one) { reconciler_.upsert_reservation(std::move(one)); },
                 [this](engine::TopologyObject&& one) { reconciler_.upsert_topology(std::move(one)); },
                 [this](model::DeviceTaintRule&& rule) { reconciler_.upsert_taint_rule(std::move(rule)); },
                 [this](GangObject&& one) { reconciler_.upsert_gang_object(std::move(one)); }},
      std::move(object));
}

void Running::remove(ObjectKind kind, const std::string& key, const std::string& uid) {
  switch (kind) {
    case ObjectKind::kPod:
      return reconciler_.remove_pod(key, uid);
    case ObjectKind::kNode:
      return reconciler_.remove_node(key);
    case ObjectKind::kSlice:
      return reconciler_.remove_slice(key);
    case ObjectKind::kClass:
      return reconciler_.remove_class(key);
    case ObjectKind::kClaim:
      return reconciler_.remove_claim(key, uid);
    case ObjectKind::kQuota:
      quota_table_.remove(key);
      reconciler_.remove_quota(key);
      return publish_quotas();
    case ObjectKind::kNamespace:
      return reconciler_.remove_namespace(key);
    case ObjectKind::kQueue:
      return reconciler_.remove_queue(key);
    case ObjectKind::kReservation:
      return reconciler_.remove_reservation(key);
    case ObjectKind::kTopology:
      return reconciler_.remove_topology(key);
    case ObjectKind::kTaintRule:
      return reconciler_.remove_taint_rule(key);
    case ObjectKind::kGangObject:
      return reconciler_.remove_gang_object(key);
  }
}

void Running::publish_quotas() {
  auto copy = std::make_shared<const QuotaTable>(quota_table_);
  const std::lock_guard lock(shared_mutex_);
  quotas_ = std::move(copy);
}

// The first certificate opens the webhook; later ones are swapped in. On the client's I/O thread.
void Running::use_certificate(const CertificatePair& pair) {
  if (webhook_) {
    if (const auto swapped = webhook_->set_certificate(pair.certificate_pem, pair.key_pem); !swapped) {
      log_.error("webhook certificate cannot be used", {{"error", swapped.error().text()}});
    }
    return;
  }
  kube::HttpServerOptions server;
  server.address = options_.webhook_address;
  server.port = options_.webhook_port;
  server.certificate_pem = pair.certificate_pem;
  server.key_pem = pair.key_pem;
  auto started = kube::HttpServer::start(server, [this](const kube::HttpRequest& r) { return review(r); }, log_);
  if (!started) {
    log_.error("the webhook cannot be served", {{"error", started.error().text()}});
    return;
  }
  webhook_ = std::move(*started);
  webhook_open_.store(true);
  log_.info("webhook open", {{"port", webhook_->port()}});
}

kube::HttpResponse Running::review(const kube::HttpRequest& request) {
  const bool mutating = request.path == "/mutate";
  if (request.method != "POST" || (!mutating && request.path != "/validate")) return plain(404, "not found\n");
  const int64_t start = clock_.monotonic_nanos();
  AdmissionContext context;
  context.controller_user = options_.controller_user;
  context.rules = options_.reconciler.rules;
  context.hardware = options_.hardware;
  {
    const std::lock_guard lock(shared_mutex_);
    context.quotas = quotas_;
  }
  const Result<AdmissionAnswer> answer = mutating ? mutate(request.body, context) : validate(request.body, context);
  const std::string verdict = !answer ? "bad" : !answer->allowed ? "refused" : answer->changed ? "changed" : "allowed";
  metrics_.webhook_answered(request.path, verdict, clock_.monotonic_nanos() - start);
  if (!answer) return plain(400, answer.error().text() + "\n");
  return {200, "application/json", answer->body, {}};
}

kube::HttpResponse Running::observe(const kube::HttpRequest& request) {
  if (request.method != "GET") return plain(405, "only GET\n");
  if (request.path == "/healthz") return plain(200, "ok\n");
  if (request.path == "/readyz") {
    if (!watches_.synced()) return plain(503, "the watches are not in step yet\n");
    if (!webhook_open_.load()) return plain(503, "the webhook has no certificate yet\n");
    return plain(200, "ok\n");
  }
  if (request.path == "/explain") {
    const auto pod = request.query.find("pod");
    if (pod == request.query.end()) return plain(400, "write ?pod=namespace/name\n");
    return explain(pod->second);
  }
  if (request.path != "/metrics") return plain(404, "not found\n");
  Metrics::Live live;
  live.leading = leading_.load();
  live.synced = watches_.synced();
  live.queued_events = queue_.size();
  live.waiting_writes = sender_.waiting();
  live.writes = sender_.counts();
  live.requests = client_.stats().requests;
  live.watch_restarts = client_.stats().watch_restarts;
  return {200, kPrometheusContentType, metrics_.text(live), {}};
}

kube::HttpResponse Running::explain(const std::string& key) {
  auto answer = std::make_shared<std::promise<std::optional<std::string>>>();
  auto future = answer->get_future();
  queue_.push(TaskEvent{[this, key, answer] { answer->set_value(reconciler_.explain_json(key)); }});
  if (future.wait_for(std::chrono::seconds(5)) != std::future_status::ready) return plain(503, "busy\n");
  const std::optional<std::string> text = future.get();
  if (!text) return plain(404, "this pod asks Heddle for nothing, or does not exist\n");
  return {200, "application/json", *text, {}};
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::start(ControllerOptions options, kube::Client& client,
                                                      const Clock& clock, const Logger& log) {
  HEDDLE_CHECK_OK(check_baseline(client));
  if (options.controller_user.empty()) {
    options.controller_user = fmt::format("system:serviceaccount:{}:heddle-controller", options.name_space);
  }
  HEDDLE_TRY(catalog::Requests rules, catalog::Requests::with_folder(options.catalog_folder));
  options.reconciler.rules = std::make_shared<const catalog::Requests>(std::move(rules));
  HEDDLE_TRY(catalog::Catalog hardware, catalog::Catalog::with_folder(options.catalog_folder));
  options.hardware = std::make_shared<const catalog::Catalog>(std::move(hardware));
  auto running = std::make_unique<Running>(std::move(options), client, clock, log);
  HEDDLE_CHECK_OK(running->open());
  return running;
}

}  // namespace heddle::controller
