// Random histories of random fleets with queues, gangs, shares and priorities, looked at from outside after each round
// of decisions: arithmetic on who holds what, which takes nothing from the code that decides. A history that fails is
// made smaller, as long as it still fails, and printed as the two files of `heddle simulate`.
// HEDDLE_HISTORY_EVENTS: arrivals, ends and evictions to go through; HEDDLE_HISTORY_SEED: where to begin.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "base/random.h"
#include "simulation/simulation.h"

namespace heddle::simulation {
namespace {

constexpr int64_t kWhole = 1000;

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}

// What the draw leaves open is asked of it by the checker, too.
struct History {
  std::string fleet;
  std::map<std::pair<std::string, std::string>, int64_t> limits;  // devices, by queue and vendor; "": of all
  std::vector<std::string> workloads;

  [[nodiscard]] std::string work() const {
    return fmt::format(R"({{"workloads": [{}]}})", fmt::join(workloads, ",\n"));
  }
};

void draw_fleet(SeededRandom& random, History& history) {
  const auto guaranteed = static_cast<int64_t>(random.below(12));
  const auto draw = [&](uint64_t least, uint64_t most) {
    return static_cast<int64_t>(least + random.below(most - least + 1));
  };
  history.limits = {{{"a", ""}, guaranteed + draw(4, 24)}, {{"a", "ascend"}, draw(2, 10)}, {{"b", ""}, draw(6, 26)}};
  history.fleet = fmt::format(R"({{"nodes": [
    {{"name": "h", "count": {}, "nodesPerDomain": {{"heddle.dev/rack": {}}},
     "devices": [{{"vendor": "nvidia", "model": "H100", "count": {}, "memory": "80Gi"}}]}},
    {{"name": "m", "count": {}, "devices": [{{"vendor": "ascend", "model": "910B", "count": 4, "memory": "64Gi"}},
                                         {{"vendor": "nvidia", "model": "L4", "count": 2, "memory": "24Gi"}}]}}],
    "grace": "{}s", "patience": "{}m", "queues": [
    {{"name": "a", "quotas": [{{"guaranteed": {}, "limit": {}}}, {{"vendor": "ascend", "guaranteed": 2, "limit": {}}}]}},
    {{"name": "b", "weight": {}, "quotas": [{{"guaranteed": 6, "limit": {}, "lending": {}}}]}}]}})",
                              draw(1, 5), draw(1, 3), draw(1, 8), draw(1, 3), draw(0, 2) * 20, draw(10, 300),
                              guaranteed, history.limits[{"a", ""}], history.limits[{"a", "ascend"}], draw(1, 3),
                              history.limits[{"b", ""}], draw(0, 4));
}

void draw_work(SeededRandom& random, History& history) {
  constexpr std::array kQueues = {"a", "b", "unassigned"};
  constexpr std::array kAsks = {R"({"devices": 4, "vendor": "nvidia", "model": "H100"})",
                                R"({"devices": 1})",
                                R"({"vendor": "ascend", "devices": 2})",
                                R"({"memory": "8Gi", "cores": 30})",
                                R"({"memory": "16Gi"})",
                                R"({"vendor": "nvidia", "memoryPercent": 40, "devices": 2})",
                                R"({"model": "L4", "memory": "20Gi", "cores": 100})"};
  constexpr std::array kTopologies = {"", "", "", R"(, "topology": {"preferred": "rack"})",
                                      R"(, "topology": {"required": "rack"})"};
  for (int i = 0; i < 60; ++i) {
    const uint64_t size = random.below(3) == 0 ? 1 + random.below(6) : 1;
    history.workloads.push_back(fmt::format(
        R"({{"name": "w{}", "arrival": {}, "duration": {}, "queue": "{}", "priority": {}, "request": {},
           "gang": {{"size": {}, "minimum": {}}}{}}})",
        i, random.below(5400), 60 + random.below(2400), kQueues[random.below(kQueues.size())], random.below(4),
        kAsks[random.below(kAsks.size())], size, 1 + random.below(size),
        kTopologies[random.below(kTopologies.size())]));
  }
}

// The first thing that is wrong; empty: nothing.
class Checker {
 public:
  Checker(const History& history, const SimulatedFleet& fleet, const std::vector<SimulatedWorkload>& workloads)
      : limits_(&history.limits) {
    for (const SimulatedNode& node : fleet.nodes) {
      nodes_[node.name] = &node;
    }
    for (const SimulatedWorkload& workload : workloads) workloads_[workload.name] = &workload;
  }

  void look(const engine::State& state, Time now) {
    if (!wrong.empty()) return;
    members_.clear();
    used_.clear();
    holds_.clear();
    for (const engine::DeviceUse& device : state.device_uses()) look_at(device);
    for (const auto& [name, spots] : members_) look_at(*workloads_.at(name), spots);
    for (const auto& [meter, limit] : *limits_) {
      if (used_[meter] > limit * kWhole) {
        wrong = fmt::format("queue {} uses {} thousandths of devices {} with a limit of {}", meter.first, used_[meter],
                            meter.second, limit);
        for (const auto& [name, milli] : holds_) {
          if (workloads_.at(name)->queue == meter.first) wrong += fmt::format(", {} {}", name, milli);
        }
      }
    }
    if (!wrong.empty()) wrong += fmt::format(" at {} s", now.unix_nanos / 1'000'000'000);
  }

  std::string wrong;

 private:
  void look_at(const engine::DeviceUse& device) {
    const std::string vendor = device.device.pool.substr(device.device.pool.find('/') + 1);
    int64_t bytes = 0;
    for (const DeviceGroup& group : nodes_.at(device.node)->devices) {
      if (group.vendor == vendor) bytes = group.memory_bytes;
    }
    int64_t cores = 0;
    int64_t memory = 0;
    for (const engine::DeviceUse::Holder& holder : device.holders) {
      const int64_t its_cores = holder.consumed.at("cores").value().value_or(-1);
      const int64_t its_memory = holder.consumed.at("memory").value().value_or(-1);
      cores += its_cores;
      memory += its_memory;
      if (its_cores == 100 && device.holders.size() > 1) wrong = "a whole card of two: " + holder.claim_key;
      const size_t slash = holder.claim_key.find('/');
      const std::string name = holder.claim_key.substr(slash + 1, holder.claim_key.rfind('-') - slash - 1);
      members_[name][holder.claim_key].insert(device.node);
      const int64_t milli = std::max({int64_t{1}, its_cores * kWhole / 100, its_memory * kWhole / bytes});
      holds_[name] += milli;
      used_[{workloads_.at(name)->queue, ""}] += milli;
      used_[{workloads_.at(name)->queue, vendor}] += milli;
    }
    if (cores > 100 || memory > bytes) {
      wrong =
          fmt::format("{}/{}: {} % and {} bytes are granted", device.device.pool, device.device.device, cores, memory);
    }
  }

  void look_at(const SimulatedWorkload& workload, const std::map<std::string, std::set<std::string>>& spots) {
    const auto count = static_cast<int64_t>(spots.size());
    if (count < workload.minimum || count > workload.members) {
      wrong = fmt::format("{} of the {} to {} members of {} hold devices", count, workload.minimum, workload.members,
                          workload.name);
    }
    std::set<std::string> racks;
    for (const auto& [member, nodes] : spots) {
      if (nodes.size() != 1) wrong = member + " is on two nodes";
      const auto& labels = nodes_.at(*nodes.begin())->labels;
      const auto rack = labels.find("heddle.dev/rack");
      racks.insert(rack == labels.end() ? "none" : rack->second);
    }
    if (workload.required == "rack" && (racks.size() > 1 || racks.contains("none"))) {
      wrong = fmt::format("{} is in racks {}", workload.name, fmt::join(racks, ", "));
    }
  }

  const std::map<std::pair<std::string, std::string>, int64_t>* limits_;
  std::map<std::string, const SimulatedNode*> nodes_;
  std::map<std::string, const SimulatedWorkload*> workloads_;
  std::map<std::string, std::map<std::string, std::set<std::string>>> members_;  // nodes by workload and member
  // Thousandths of devices: by queue and vendor, and by workload.
  std::map<std::pair<std::string, std::string>, int64_t> used_;
  std::map<std::string, int64_t> holds_;
};

struct Ran {
  std::string wrong;
  std::string text;  // what came of it
  int64_t events = 0;
};

Ran run(const History& history, uint64_t seed) {
  const auto fleet = read_fleet({"fleet", history.fleet});
  if (!fleet) return {fleet.error().text(), {}, 0};
  const auto workloads = read_workloads({"workloads", history.work()}, seed);
  if (!workloads) return {workloads.error().text(), {}, 0};
  Checker checker(history, *fleet, *workloads);
  const ManualClock clock(Time{});
  const auto result = simulate(*fleet, *workloads, seed, clock,
                               [&](const engine::State& state, Time now) { checker.look(state, now); });
  if (!result) return {result.error().text(), {}, 0};
  Ran ran{checker.wrong,
          fmt::format("{} {} {} {} {}", result->finished, result->allocated_percent, result->waits.mean,
                      result->evictions, result->decisions),
          result->workloads + result->finished + result->evictions};
  for (const Unplaced& unplaced : result->unplaced) {
    ran.text += fmt::format(" {}:{}", unplaced.workload, unplaced.reasons.empty() ? "" : unplaced.reasons[0].message);
    if (unplaced.reasons.empty()) ran.wrong = unplaced.workload + " waits without a reason";
  }
  if (result->finished + static_cast<int64_t>(result->unplaced.size()) != result->workloads) {
    ran.wrong = "workloads are lost";
  }
  return ran;
}

// Takes workloads away while it still fails: halves, then quarters, down to single ones.
History smallest(History history, uint64_t seed) {
  for (size_t chunk = std::max<size_t>(history.workloads.size() / 2, 1);; chunk /= 2) {
    for (size_t at = 0; at < history.workloads.size();) {
      History less = history;
      const auto begin = less.workloads.begin() + static_cast<ptrdiff_t>(at);
      less.workloads.erase(begin, begin + static_cast<ptrdiff_t>(std::min(chunk, less.workloads.size() - at)));
      if (!less.workloads.empty() && !run(less, seed).wrong.empty()) {
        history = std::move(less);
      } else {
        at += chunk;
      }
    }
    if (chunk <= 1) return history;
  }
}

TEST(SimulationHistory, NothingIsGrantedTwiceNoQuotaIsPassedAndNoGangIsCut) {
  const int64_t events = setting("HEDDLE_HISTORY_EVENTS", 3000);
  int64_t seen = 0;
  for (auto seed = static_cast<uint64_t>(setting("HEDDLE_HISTORY_SEED", 1)); seen < events; ++seed) {
    SeededRandom random(seed);
    History history;
    draw_fleet(random, history);
    draw_work(random, history);
    const Ran ran = run(history, seed);
    if (!ran.wrong.empty()) {
      const History small = smallest(history, seed);
      FAIL() << "HEDDLE_HISTORY_SEED=" << seed << ": " << run(small, seed).wrong << "\nfleet:\n"
             << small.fleet << "\nworkloads:\n"
             << small.work();
    }
    EXPECT_EQ(ran.text, run(history, seed).text)
        << "HEDDLE_HISTORY_SEED=" << seed << ": the same input, another answer";
    seen += ran.events;
  }
  std::printf("%lld events\n", static_cast<long long>(seen));
}

// The checks themselves: a history that is known to break a rule is found and made small.
TEST(SimulationHistory, AFailureIsMadeSmall) {
  SeededRandom random(1);
  History history;
  draw_fleet(random, history);
  draw_work(random, history);
  history.limits[{"a", ""}] = 0;  // another one than the fleet says
  ASSERT_NE(run(history, 1).wrong, "");
  const History small = smallest(history, 1);
  EXPECT_EQ(small.workloads.size(), 1U);
  EXPECT_NE(run(small, 1).wrong.find("queue a uses"), std::string::npos);
}

}  // namespace
}  // namespace heddle::simulation
