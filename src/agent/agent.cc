#include "agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <latch>
#include <thread>

#include "agent/account.h"
#include "agent/claim_service.h"
#include "agent/events.h"
#include "agent/health.h"
#include "agent/lending.h"
#include "agent/metrics.h"
#include "agent/mps.h"
#include "agent/names.h"
#include "agent/node_view.h"
#include "agent/offer.h"
#include "agent/publisher.h"
#include "agent/supervision.h"
#include "base/file.h"
#include "base/prometheus.h"
#include "codec/codec.h"
#include "kube/http_server.h"
#include "vendors/sources.h"

namespace heddle::agent {
namespace {

constexpr Duration kRetry = Duration::seconds(1);
constexpr Duration kIdle = Duration::seconds(3600);
constexpr Duration kPatience = Duration::seconds(10);        // of a Prepare right after the start
constexpr Duration kAccountInterval = Duration::seconds(2);  // a restarted container waits that long at most
constexpr Duration kConfirm = Duration::millis(500);         // between the first and the second look at a suspect

// Reads claims side by side.
Claims read_claims(kube::Client& client, const std::vector<ClaimName>& names) {
  struct Shared {
    explicit Shared(size_t count) : done(static_cast<std::ptrdiff_t>(count)) {}
    std::latch done;
    std::vector<Result<kube::Response>> responses;
  };
  const auto shared = std::make_shared<Shared>(names.size());
  shared->responses.assign(names.size(), fail(Code::kUnavailable, "not asked"));
  for (size_t i = 0; i < names.size(); ++i) {
    kube::Request request;
    request.path =
        fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", names[i].name_space, names[i].name);
    client.send(std::move(request), [shared, i](Result<kube::Response> response) {
      shared->responses[i] = std::move(response);
      shared->done.count_down();
    });
  }
  shared->done.wait();
  Claims claims;
  for (const Result<kube::Response>& response : shared->responses) {
    claims.push_back(response ? codec::parse_claim(response->body) : tl::unexpected(response.error()));
  }
  return claims;
}

Result<model::Pod> read_pod(kube::Client& client, const std::string& name_space, const std::string& name) {
  kube::Request request;
  request.path = fmt::format("/api/v1/namespaces/{}/pods/{}", name_space, name);
  const auto answer = std::make_shared<std::promise<Result<kube::Response>>>();
  client.send(std::move(request),
              [answer](Result<kube::Response> response) { answer->set_value(std::move(response)); });
  HEDDLE_TRY(const kube::Response response, answer->get_future().get());
  return codec::parse_pod(response.body);
}

class Agent {
 public:
  Agent(const AgentOptions& options, kube::Client& client, const Clock& clock, const Logger& log)
      : options_(options),
        client_(client),
        clock_(clock),
        log_(log),
        source_(options.workers, options.preparer.state_dir, clock),
        events_(client, clock, options.node_name, log),
        maker_(std::make_shared<PartitionMaker>(PartitionPorts{
            [this](const auto& vendor, const auto& order, const auto& taken) {
              return source_.place_partition(vendor, order, taken);
            },
            [this](const auto& vendor, const auto& order) { return source_.make_partition(vendor, order); },
            [this](const auto& vendor, const auto& order) { return source_.drop_partition(vendor, order); }})) {}

  Result<void> run(const std::function<void()>& wait_for_stop) {
    HEDDLE_CHECK_OK(make_directories(options_.preparer.state_dir, 0755));
    PreparerOptions preparing = options_.preparer;
    preparing.partitions = maker_;
    HEDDLE_TRY(preparer_, Preparer::open(std::move(preparing), log_));
    supervision_ = std::make_unique<Supervision>(options_, *preparer_, events_, log_);
    // Also of no use any more, what claims have of it stays.
    const std::vector<ClaimRecord> records = preparer_->records();
    if (!options_.make_partitions.empty() || std::ranges::any_of(records, has_made)) {
      HEDDLE_TRY(catalog_, catalog::Catalog::built_in());
    }
    source_.refresh();
    preparer_->repair_all();
    view_ = std::make_unique<NodeView>(options_.node_name, client_, log_);
    claims_ = std::make_unique<ClaimService>(
        *preparer_,
        ClaimServicePorts{[this](const auto& names) { return read_claims(client_, names); },
                          [this] { return node_cards(); },
                          [this](const auto& name_space, const auto& pod) { return containers(name_space, pod); }},
        log_);
    HEDDLE_CHECK_OK(start_metrics());
    std::thread supervise([this] { supervise_loop(); });
    std::thread publish([this] { publish_loop(); });
    start_lending();
    Result<std::unique_ptr<DraServer>> server = DraServer::start(options_.dra, *claims_, health_, log_);
    if (server) {
      log_.info("the agent runs", {{"node", options_.node_name}, {"socket", (*server)->paths().plugin}});
      ready_ = true;
      wait_for_stop();
      log_.info("the agent stops");
    }
    ready_ = false;
    stop();
    if (server) server->reset();
    lending_.reset();
    supervise.join();
    publish.join();
    metrics_.reset();
    view_.reset();
    return server ? Result<void>() : tl::unexpected(server.error());
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    view_->close();
  }

  [[nodiscard]] bool stopping() const {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  // Waits shortly after a start for what the API server says about this node.
  Result<NodeCards> node_cards() {
    std::unique_lock lock(mutex_);
    const bool known =
        wake_.wait_for(lock, std::chrono::nanoseconds(kPatience.nanos), [this] { return looked_ || stopping_; });
    lock.unlock();
    const NodeState state = view_->state();
    if (!known || !state.node || !state.slices_synced) {
      return fail(Code::kUnavailable, "the agent does not know yet who else uses the cards of this node");
    }
    Offer now = offer();
    std::map<std::string, std::string> owners = foreign(now.cards, state);
    return NodeCards{options_.node_name, std::move(now.cards), std::move(owners), std::move(now.parts)};
  }

  Offer offer() const {
    std::vector<vendors::Card> cards = with_mps(source_.cards(), mps_pipe());
    if (!catalog_) return {std::move(cards), {}};
    return offer_of(*catalog_, options_.make_partitions, std::move(cards), preparer_->records());
  }

  // The watch may be behind the kubelet: a pod that it does not know yet is read.
  Result<std::vector<ContainerClaims>> containers(const std::string& name_space, const PodReference& pod) {
    if (std::optional<PodInfo> known = view_->pod(pod.uid)) return std::move(known->containers);
    Result<model::Pod> found = read_pod(client_, name_space, pod.name);
    const bool gone = !found ? found.error().code == Code::kNotFound : found->meta.uid != pod.uid;
    if (gone) return std::vector<ContainerClaims>();
    if (!found) return tl::unexpected(found.error());
    return pod_info(*found).containers;
  }

  std::map<std::string, std::string> foreign(const std::vector<vendors::Card>& cards, const NodeState& state) const {
    std::map<std::string, std::string> owners = foreign_owners(cards, state.slices, state.allocatable);
    for (const std::string& uuid : supervision_->in_use()) owners.emplace(uuid, "in-use-by-others");
    return owners;
  }

  void supervise_loop() {
    std::string published;
    const bool sees_all = sees_all_processes(options_.proc, options_.in_pod);
    if (!sees_all) log_.warning("not in the host's pid namespace (hostPID): ended processes stay on their accounts");
    int64_t next_accounts = 0;
    while (!stopping()) {
      source_.refresh();
      tell_discovery();
      if (sees_all && clock_.monotonic_nanos() >= next_accounts) {
        free_dead_processes(accounts(), options_.proc, log_);
        next_accounts = clock_.monotonic_nanos() + kAccountInterval.nanos;
      }
      const NodeState state = view_->state();
      const bool soon = look(state);
      update_health();
      // The slices show health and owners: only a change of what they show wakes the publisher.
      const std::string now = fingerprint(state);
      if (now != published) view_->poke();
      published = now;
      std::unique_lock lock(mutex_);
      const Duration pause =
          soon || !looked_ ? std::min(kConfirm, options_.supervise_interval) : options_.supervise_interval;
      wake_.wait_for(lock, std::chrono::nanoseconds(pause.nanos), [this] { return stopping_; });
    }
  }

  // What was found, and what of it cannot be offered: once, and again when it changes. Of the supervising thread.
  void tell_discovery() {
    const Offer now = offer();
    for (const vendors::VendorSnapshot& of : source_.by_vendor()) {
      tell_discovery(of.vendor, as_offered(of.snapshot.inventory, now));
    }
  }

  void tell_discovery(const std::string& vendor, const vendors::Inventory& inventory) {
    std::vector<std::string> lines = not_offered(inventory);
    const bool usable = inventory.state == vendors::LibraryState::kOk;
    if (!usable) lines.insert(lines.begin(), inventory.detail);
    const auto now = std::pair(inventory.cards.size(), lines);
    const auto told = discovery_told_.find(vendor);
    if (told != discovery_told_.end() && told->second == now) return;
    log_.info("discovered",
              {{"vendor", vendor}, {"library", inventory.library_path}, {"cards", inventory.cards.size()}});
    // Most machines have the cards of one vendor.
    const bool absent = inventory.state == vendors::LibraryState::kMissing && inventory.cards.empty();
    if (absent) log_.info("there is no driver", {{"vendor", vendor}, {"why", inventory.detail}});
    if (!usable && !absent) {
      log_.warning("the driver's library cannot be used", {{"vendor", vendor}, {"why", inventory.detail}});
    }
    for (size_t i = usable ? 0 : 1; i < lines.size(); ++i) {
      log_.warning("a card is not offered", {{"vendor", vendor}, {"why", lines[i]}});
    }
    discovery_told_[vendor] = now;
  }

  std::vector<ClaimAccount> accounts() const {
    std::vector<ClaimAccount> result;
    for (ClaimRecord& record : preparer_->records()) {
      std::string file = preparer_->usage_file(record);
      result.push_back({std::move(record), std::move(file)});
    }
    return result;
  }

  void start_lending() {
    LendingPorts ports;
    ports.claims = [this] { return lent_claims(); };
    ports.times = [this] { return source_.times(); };
    ports.owner_of = [this](int64_t pid) -> std::optional<std::string> {
      const std::optional<ProcessIdentity> process = supervision_->identify(pid);
      return process ? std::optional(process->owner) : std::nullopt;
    };
    ports.overuse = [this](const std::vector<Overuse>& found) { supervision_->note_overuse(found, view_->state()); };
    const LendingMode mode = options_.strict_shares ? LendingMode::kWatch : LendingMode::kLend;
    lending_ = std::make_unique<Lending>(std::move(ports), clock_, mode);
  }

  std::vector<LentClaim> lent_claims() const {
    const NodeState state = view_->state();
    std::vector<LentClaim> claims;
    for (const ClaimRecord& record : preparer_->records()) {
      LentClaim claim{{record.uid, preparer_->limits_file(record), preparer_->usage_file(record)}, {}, {}};
      for (const GrantedDevice& device : plan_folder(record).devices) {
        claim.cards.push_back(device.card_uuid);
        // MPS holds a part of the SMs, which the account of the time does not show.
        if (device.mps) continue;
        const bool gives_way = device.cores == 0 && device.priority > 0;
        if (device.cores >= 100 || (device.cores == 0 && !gives_way)) continue;
        claim.shares[device.card_uuid] = {static_cast<double>(device.cores) / 100, gives_way};
      }
      for (const std::string& pod : pods_of(record, state)) claim.owners.push_back(pod);
      claims.push_back(std::move(claim));
    }
    return claims;
  }

  // True when a second look should follow soon.
  bool look(const NodeState& state) {
    std::vector<vendors::CardStatus> statuses = without_mps_servers(source_.statuses(), mps_pipe(), options_.proc);
    if (!state.pods_synced || !state.slices_synced || !state.node) return false;
    if (!looked_) {
      supervision_->note_in_use(statuses, state);
      source_.forget_missing([this](const std::string& uuid) { return supervision_->is_held(uuid); });
    }
    {
      const std::lock_guard lock(mutex_);
      looked_ = true;
    }
    wake_.notify_all();
    const std::map<std::string, std::string> served = foreign_owners(source_.cards(), state.slices, state.allocatable);
    std::erase_if(statuses, [&](const vendors::CardStatus& card) { return served.contains(card.uuid); });
    return supervision_->look(statuses, state);
  }

  void update_health() {
    std::vector<DeviceHealth> devices;
    const int64_t now = clock_.now().unix_nanos / 1'000'000'000;
    const auto add = [&](const vendors::Card& card, const std::string& device) {
      devices.push_back({pool_name(options_.node_name, card.vendor), device, card.healthy, card.health_message, now});
    };
    const Offer offered = offer();
    for (const vendors::Card& card : offered.cards) add(card, device_name(card));
    for (const Parts& parts : offered.parts) {
      for (const model::Device& part : parts.devices) add(parts.card, part.name);
    }
    health_.set(std::move(devices));
  }

  std::string mps_pipe() const {
    const std::string& pipe = options_.preparer.mps_pipe;
    return pipe.empty() ? pipe : vendors::seen_path(options_.preparer.injection, pipe);
  }

  std::string fingerprint(const NodeState& state) const {
    const Offer now = offer();
    std::string text = looked_ ? "looked" : "";
    for (const model::ResourceSlice& slice : offered_slices({"", ""}, now, foreign(now.cards, state))) {
      text += codec::slice_json(slice);
    }
    return text;
  }

  void publish_loop() {
    SlicePublisher publisher(client_, *view_, log_);
    bool done = true;
    uint64_t seen = 0;
    while (!stopping()) {
      seen = view_->wait(seen, done ? kIdle : kRetry);
      if (stopping()) return;
      const NodeState state = view_->state();
      // Nothing is offered before it is known who else uses the cards.
      if (!state.node || !state.slices_synced || !looked_) continue;
      const Offer now = offer();
      std::vector<model::ResourceSlice> own = state.slices;
      std::erase_if(own, [](const model::ResourceSlice& slice) { return slice.driver != kDriver; });
      done = publisher.reconcile(offered_slices(*state.node, now, foreign(now.cards, state)), own);
      slice_writes_ = publisher.writes();
      if (!done) {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::chrono::nanoseconds(kRetry.nanos), [this] { return stopping_; });
      }
    }
  }

  MetricsInput metrics_input() const {
    MetricsInput input;
    input.node = options_.node_name;
    input.vendors = source_.by_vendor();
    const Offer now = offer();
    for (vendors::VendorSnapshot& of : input.vendors) {
      of.snapshot.inventory = as_offered(std::move(of.snapshot.inventory), now);
    }
    input.partitions = maker_->counts();
    for (const ClaimAccount& account : accounts()) {
      input.claims.push_back(account.claim);
      input.charged.push_back(charged(account));
    }
    input.findings = supervision_->findings();
    input.findings_total = supervision_->findings_total();
    input.ended_total = supervision_->ended_total();
    input.slice_writes = slice_writes_;
    const kube::ClientStats stats = client_.stats();
    input.api_requests = stats.requests;
    input.api_failures = stats.failures;
    return input;
  }

  Result<void> start_metrics() {
    if (options_.metrics_address.empty()) return {};
    kube::HttpServerOptions http;
    http.address = options_.metrics_address;
    http.port = options_.metrics_port;
    http.threads = 1;
    HEDDLE_TRY(metrics_,
               kube::HttpServer::start(
                   std::move(http), [this](const kube::HttpRequest& request) { return serve(request); }, log_));
    log_.info("metrics are served", {{"address", options_.metrics_address}, {"port", metrics_->port()}});
    return {};
  }

  kube::HttpResponse serve(const kube::HttpRequest& request) const {
    if (request.path == "/metrics") return {200, kPrometheusContentType, metrics_text(metrics_input()), {}};
    if (request.path == "/healthz") return {200, "text/plain", "ok\n", {}};
    if (request.path == "/readyz") {
      return {ready_ ? 200 : 503, "text/plain", ready_ ? "ok\n" : "the plugin does not listen yet\n", {}};
    }
    return {404, "text/plain", "try /metrics, /healthz or /readyz\n", {}};
  }

  const AgentOptions& options_;
  kube::Client& client_;
  const Clock& clock_;
  const Logger& log_;
  vendors::CardSources source_;
  std::map<std::string, std::pair<size_t, std::vector<std::string>>> discovery_told_;  // by vendor
  EventWriter events_;
  HealthBoard health_;
  const std::shared_ptr<PartitionMaker> maker_;
  std::optional<catalog::Catalog> catalog_;  // where partitions are made, or were
  std::unique_ptr<Preparer> preparer_;
  std::unique_ptr<NodeView> view_;
  std::unique_ptr<Supervision> supervision_;
  std::unique_ptr<ClaimService> claims_;
  std::unique_ptr<kube::HttpServer> metrics_;
  std::unique_ptr<Lending> lending_;
  std::atomic<bool> ready_ = false;
  std::atomic<bool> looked_ = false;
  std::atomic<int64_t> slice_writes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
};

}  // namespace

Result<void> run_agent(const AgentOptions& options, kube::Client& client, const Clock& clock, const Logger& log,
                       const std::function<void()>& wait_for_stop) {
  return Agent(options, client, clock, log).run(wait_for_stop);
}

}  // namespace heddle::agent
