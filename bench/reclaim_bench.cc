// Reclaim: 500 nodes of 8 cards are full of single cards that one queue borrowed, and the queue that they are
// guaranteed to wants all 4,000 back, one pod each. Measured: every plan (simulated on the engine), the eviction, the
// placement of the preemptor. Prints one JSON object of metric to number.
//   reclaim_bench [NODES]
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "engine/eviction.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

constexpr int64_t kCard = 1000;
constexpr int kCardsANode = 8;

queueing::Queues make_queues(int64_t cards) {
  queueing::Config config;
  config.patience = std::nullopt;
  config.meters = {{.name = "cards",
                    .kind = queueing::Meter::Kind::kDevices,
                    .device_class = {},
                    .vendor = {},
                    .model = {},
                    .shape = {}}};
  const auto add = [&](const char* name, const char* parent, int64_t guaranteed) {
    config.queues.push_back({.name = name, .parent = parent, .weight = 1, .quotas = {}});
    config.queues.back().quotas["cards"].guaranteed = guaranteed * kCard;
  };
  add("root", "", cards);
  add("owner", "root", cards);
  add("borrower", "root", 0);
  return queueing::Queues::make(std::move(config)).value();
}

class Bench {
 public:
  explicit Bench(int nodes) : nodes_(nodes), queues_(make_queues(int64_t{nodes} * kCardsANode)), preemptions_(queues_) {
    state_.upsert_class(test::make_class());
    for (int n = 0; n < nodes; ++n) {
      state_.upsert_node(test::make_node(node_name(n)));
      state_.upsert_slice(test::make_slice(node_name(n), kCardsANode, 80000 * test::kMiB));
    }
    for (int i = 0; i < nodes * kCardsANode; ++i) {
      const std::string id = fmt::format("v{:05}", i);
      submit(id, "borrower");
      grant(id, node_name(i / kCardsANode));
      queues_.start(id, Time{i + 1});
      holdings_[id] = {{id}, {id}};
      preemptions_.upsert({id, "borrower", 0, Time{i + 1}, kCard, node_name(i / kCardsANode), false});
    }
    for (int i = 0; i < nodes * kCardsANode; ++i) submit(fmt::format("p{:05}", i), "owner");
  }

  // Milliseconds; nothing when something went wrong.
  std::optional<double> run() {
    const auto begin = std::chrono::steady_clock::now();
    Time now{int64_t{1} << 40};
    for (int i = 0; i < nodes_ * kCardsANode; ++i) {
      const std::string id = fmt::format("p{:05}", i);
      now = now + Duration::millis(1);
      PlacementRequest request = request_of(id, {});
      auto room = RoomWithout::make(state_, request, holdings_);
      if (!room) return std::nullopt;
      const auto answer = preemptions_.plan(id, now, **room);
      if (!answer.eviction || answer.eviction->victims.size() != 1) return std::nullopt;
      preemptions_.begin(*answer.eviction, now);
      const std::string victim = answer.eviction->victims.front();
      state_.remove_claim(victim);
      state_.remove_pod_usage(victim);
      if (preemptions_.gone(victim, now).size() != 1) return std::nullopt;
      grant(id, answer.eviction->site);
      queues_.start(id, now);
      preemptions_.upsert({id, "owner", 0, now, kCard, answer.eviction->site, false});
    }
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
    const bool done = queues_.usage("owner").at(0) == int64_t{nodes_} * kCardsANode * kCard &&
                      queues_.violations().empty() && state_.over_commits().empty();
    return done ? std::optional(spent.count()) : std::nullopt;
  }

 private:
  static std::string node_name(int n) { return fmt::format("node-{:04}", n); }

  void submit(const std::string& id, const std::string& queue) {
    queueing::Portion card;
    card.milli_devices = kCard;
    static_cast<void>(queues_.submit({.id = id,
                                      .queue = queue,
                                      .priority = 0,
                                      .submitted = {},
                                      .portions = {card},
                                      .runtime = {},
                                      .reservation = {}},
                                     {}));
  }

  PlacementRequest request_of(const std::string& id, const std::string& node) {
    pod_.meta.uid = id;
    PlacementRequest request;
    request.pod = &pod_;
    request.claims.push_back(test::make_claim(id, {}));
    if (!node.empty()) request.pinned_node = node;
    return request;
  }

  void grant(const std::string& id, const std::string& node) {
    const PlacementRequest request = request_of(id, node);
    const auto outcome = state_.place(request, random_);
    const auto* assigned = outcome ? std::get_if<Assigned>(&*outcome) : nullptr;
    if (assigned == nullptr) return;
    state_.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
    state_.upsert_pod_usage(id, node, {{"cpu", 1000}});
  }

  int nodes_;
  State state_;
  SeededRandom random_{1};
  queueing::Queues queues_;
  queueing::Preemptions preemptions_;
  model::Pod pod_;
  std::map<std::string, VictimHoldings> holdings_;
};

}  // namespace
}  // namespace heddle::engine

int main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 500;
  heddle::engine::Bench bench(nodes);
  const auto spent = bench.run();
  if (!spent) {
    fmt::print(stderr, "reclaim_bench: a reclaim did not do what it should\n");
    return 3;
  }
  fmt::print("{{\"placement.reclaim4000_ms\": {:.1f}}}\n", *spent);
  return 0;
}
