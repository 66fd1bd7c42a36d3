// 10,000 pods that wait on a full fleet of 500 nodes x 8 cards: what one event costs the controller's core, in CPU time
// of its thread. Four fleets of waiting pods, of 40 shapes each: single pods, pods of nine queues, gangs of 8, and
// gangs of 8 in the nine queues. The events: a pod ends and what it frees is too small for anybody; a pod comes that
// has to wait, too. Answers of the API server are given at once and are not in it. Prints one JSON object.
//   waiting_bench [PODS [NODES]]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "codec/codec.h"
#include "controller/queue_table.h"
#include "controller/reconciler.h"
#include "dialects/translate.h"
#include "engine/test_fleet.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr int kCardsANode = 8;
constexpr int64_t kCardMib = 80000;
constexpr int kShapes = 40;
constexpr int kQueues = 10;  // the first has what runs, and is guaranteed all of it
constexpr int kGang = 8;
constexpr int kEvents = 5;

enum class Kind { kPlain, kQueued, kGangs, kQueuedGangs };

bool has_queues(Kind kind) {
  return kind == Kind::kQueued || kind == Kind::kQueuedGangs;
}

bool has_gangs(Kind kind) {
  return kind == Kind::kGangs || kind == Kind::kQueuedGangs;
}

double cpu_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double middle(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class Waiting {
 public:
  Waiting(Kind kind, int pods, int nodes)
      : kind_(kind),
        pods_(pods),
        nodes_(nodes),
        rules_(std::make_shared<const catalog::Requests>(catalog::Requests::built_in().value())),
        log_("bench", LogLevel::kError, clock_, 2) {
    ReconcilerOptions options;
    options.rules = rules_;
    reconciler_ = std::make_unique<Reconciler>(std::move(options), clock_, log_);
  }

  struct Result {
    double start_ms = 0;  // the first pass over all of them
    double ends_ms = 0;
    double comes_ms = 0;
  };

  // Nothing when something went wrong.
  std::optional<Result> run() {
    Result result;
    add_fleet();
    for (int i = 0; i < pods_; ++i) {
      if (!add_waiting(i)) return std::nullopt;
    }
    reconciler_->lead();
    result.start_ms = pass();
    if (started_ > 0 || !all_wait()) {
      fmt::print(stderr, "waiting: a pod started on a full fleet, or was told nothing\n");
      return std::nullopt;
    }
    std::vector<double> ends;
    std::vector<double> comes;
    for (int i = 0; i < kEvents; ++i) {
      const std::string small = fmt::format("{}/small-{}-0", queue_name(0), i);
      reconciler_->remove_pod(small, {});
      reconciler_->remove_claim(small, {});
      ends.push_back(pass());
      if (!add_waiting(pods_ + i)) return std::nullopt;
      comes.push_back(pass());
    }
    result.ends_ms = middle(ends);
    result.comes_ms = middle(comes);
    return result;
  }

 private:
  static std::string queue_name(int number) { return fmt::format("queue-{}", number); }

  void add_fleet() {
    reconciler_->upsert_class(engine::test::make_class());
    for (int q = 0; has_queues(kind_) && q < kQueues; ++q) {
      Json spec{{"namespaces", Json::array({queue_name(q)})}};
      if (q == 0) spec["quotas"] = Json::array({{{"guaranteed", nodes_ * kCardsANode}}});
      const Json queue{{"metadata", {{"name", queue_name(q)}, {"generation", 1}}}, {"spec", spec}};
      reconciler_->upsert_queue(*read_queue_object(queue.dump()));
    }
    for (int n = 0; n < nodes_; ++n) {
      const std::string node = fmt::format("node-{}", n);
      reconciler_->upsert_node(engine::test::make_node(node));
      reconciler_->upsert_slice(engine::test::make_slice(node, kCardsANode, kCardMib * engine::test::kMiB));
      for (int card = 0; card < kCardsANode; ++card) {
        add_tenant(fmt::format("big-{}-{}", n, card), node, card, "70000Mi", "80");
        add_tenant(fmt::format("small-{}-{}", n, card), node, card, "100Mi", "1");
      }
    }
  }

  void add_tenant(const std::string& name, const std::string& node, int card, const char* memory, const char* cores) {
    const std::string name_space = queue_name(0);
    model::DeviceResult device;
    device.request = "gpu";
    device.driver = engine::test::kDriver;
    device.pool = node + "/nvidia";
    device.device = fmt::format("gpu-{}", card);
    device.share_id = name;
    device.consumed_capacity = {{"memory", engine::test::quantity(memory)}, {"cores", engine::test::quantity(cores)}};
    model::Allocation allocation;
    allocation.results.push_back(device);
    engine::ClaimRequest request =
        engine::test::make_claim(name_space + "/" + name, {.memory = memory, .cores = cores, .memory_percent = {}});
    model::ResourceClaim claim = engine::test::granted(request, allocation);
    claim.reserved_for.front().uid = "pod-" + name;
    reconciler_->upsert_claim(std::move(claim));
    const Json pod{{"metadata", {{"name", name}, {"namespace", name_space}, {"uid", "pod-" + name}}},
                   {"spec",
                    {{"nodeName", node},
                     {"resourceClaims", Json::array({{{"name", "card"}, {"resourceClaimName", name}}})},
                     {"containers", Json::array({{{"name", "main"}, {"image", "work"}}})}}},
                   {"status", {{"phase", "Running"}}}};
    reconciler_->upsert_pod(*codec::parse_pod(pod.dump()));
  }

  // As it comes out of the webhook.
  bool add_waiting(int number) {
    const int group = has_gangs(kind_) ? number / kGang : number;
    const std::string name = fmt::format("waits-{}", number);
    Json limits{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", std::to_string(20000 + group % kShapes)}};
    Json pod{{"apiVersion", "v1"},
             {"kind", "Pod"},
             {"metadata",
              {{"name", name},
               {"namespace", queue_name(1 + group % (kQueues - 1))},
               {"uid", "pod-" + name},
               {"creationTimestamp",
                fmt::format("2026-01-01T{:02}:{:02}:{:02}Z", number / 3600 % 24, number / 60 % 60, number % 60)}}},
             {"spec", {{"containers", Json::array({{{"name", "main"}, {"image", "work"}}})}}}};
    pod["spec"]["containers"][0]["resources"] = {{"limits", limits}, {"requests", limits}};
    if (has_gangs(kind_)) {
      pod["metadata"]["annotations"] = {{"heddle.dev/gang", fmt::format("gang-{}", group)},
                                        {"heddle.dev/gang-size", std::to_string(kGang)},
                                        {"heddle.dev/gang-index", std::to_string(number % kGang)}};
    }
    const auto translation = dialects::translate_pod(*rules_, pod.dump(), fmt::format("{:010x}-uid", number));
    if (!translation || !translation->changed) return false;
    auto parsed = codec::parse_pod(pod.patch(Json::parse(translation->json_patch)).dump());
    if (!parsed) return false;
    keys_.push_back(parsed->meta.key());
    reconciler_->upsert_pod(std::move(*parsed));
    return true;
  }

  // Until there is nothing more to write; all answers come at once.
  double pass() {
    double spent = 0;
    for (;;) {
      const double start = cpu_ms();
      const std::vector<Write> writes = reconciler_->run();
      spent += cpu_ms() - start;
      for (const Write& write : writes) {
        if (!is_telling(write.kind)) ++started_;
        reconciler_->finish(write.id, std::string("{}"));
      }
      if (writes.empty()) return spent;
    }
  }

  [[nodiscard]] bool all_wait() const {
    return std::all_of(keys_.begin(), keys_.end(), [&](const std::string& key) {
      const auto told = reconciler_->explain_json(key);
      return told && Json::parse(*told)["outcome"] == "Waiting";
    });
  }

  Kind kind_;
  int pods_;
  int nodes_;
  SystemClock clock_;
  std::shared_ptr<const catalog::Requests> rules_;
  Logger log_;
  std::unique_ptr<Reconciler> reconciler_;
  std::vector<std::string> keys_;
  int started_ = 0;
};

}  // namespace
}  // namespace heddle::controller

int main(int argc, char** argv) {
  using heddle::controller::Kind;
  const int pods = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const int nodes = argc > 2 ? std::atoi(argv[2]) : 500;
  if (pods <= 0 || nodes < 10) {
    fmt::print(stderr, "usage: waiting_bench [PODS [NODES, 10 or more]]\n");
    return 1;
  }
  double worst_event = 0;
  double worst_start = 0;
  std::string text;
  for (const auto& [kind, name] : {std::pair{Kind::kPlain, "plain"},
                                   {Kind::kQueued, "queued"},
                                   {Kind::kGangs, "gangs"},
                                   {Kind::kQueuedGangs, "queued_gangs"}}) {
    const auto result = heddle::controller::Waiting(kind, pods, nodes).run();
    if (!result) return 3;
    worst_event = std::max({worst_event, result->ends_ms, result->comes_ms});
    worst_start = std::max(worst_start, result->start_ms);
    text += fmt::format(
        ", \"placement.waiting10k.{0}_ends_ms\": {1:.1f}, \"placement.waiting10k.{0}_comes_ms\": {2:.1f}, "
        "\"placement.waiting10k.{0}_start_ms\": {3:.0f}",
        name, result->ends_ms, result->comes_ms, result->start_ms);
  }
  fmt::print("{{\"placement.waiting10k_ms\": {:.1f}, \"placement.waiting10k_start_ms\": {:.0f}{}}}\n", worst_event,
             worst_start, text);
  return 0;
}
