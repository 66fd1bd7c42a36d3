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
constexpr int64_t kSecond = 1'000'000'000;

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}

// What the draw leaves open is asked of it by the checker, too.
struct History {
  std::string fleet;
  std::map<std::pair<std::string, std::string>, int64_t> limits;  // devices, by queue and vendor; "": of all
  std::map<std::string, std::string> parents;                     // of queues below others
  std::map<std::string, int64_t> owed;  // devices that a leaf is guaranteed, where it is guaranteed nothing else
  bool bounded = true;                  // nothing but work itself makes work wait
  std::vector<std::string> workloads;

  [[nodiscard]] std::string work() const {
    return fmt::format(R"({{"workloads": [{}]}})", fmt::join(workloads, ",\n"));
  }
};

class Draw {
 public:
  Draw(SeededRandom& random, History& history) : random_(random), history_(history) {}

  void fleet() {
    const int64_t patience = between(5, 20) * (one_of(3) ? 10 : 1);
    const int64_t cards = between(1, 8);
    std::vector<std::string> queues = {leaf("a", "", between(0, 11), cards), leaf("b", "", between(2, 8), cards)};
    if (one_of(2)) add_tree(queues, cards);
    leaves_.push_back("unassigned");
    history_.fleet = fmt::format(R"({{"nodes": [
    {{"name": "h", "count": {}, "nodesPerDomain": {{"heddle.dev/rack": {}}},
     "devices": [{{"vendor": "nvidia", "model": "H100", "count": {}, "memory": "80Gi"}}]}},
    {{"name": "m", "count": {}, "devices": [{{"vendor": "ascend", "model": "910B", "count": 4, "memory": "64Gi"}},
                                         {{"vendor": "nvidia", "model": "L4", "count": 2, "memory": "24Gi"}}]}}],
    "grace": "{}s", "patience": "{}m", "queues": [{}]{}}})",
                                 between(1, 5), between(1, 3), cards, between(1, 3), between(0, 2) * 20, patience,
                                 fmt::join(queues, ",\n"), reservations());
  }

  // Much of everything, or little of it beside a stream of single cards that a guarantee is just enough for.
  void work() {
    const bool stream = one_of(3) && !history_.owed.empty();
    const int64_t longest = stream ? 300 : 2400;
    if (stream) {
      const auto& [queue, guaranteed] = *std::next(history_.owed.begin(), between(0, std::ssize(history_.owed) - 1));
      history_.workloads.push_back(
          fmt::format(R"({{"name": "s", "count": 150, "every": {}, "duration": {}, "queue": "{}", "request": {{}}}})",
                      longest / std::max<int64_t>(guaranteed, 1) + 1, longest, queue));
    }
    for (int i = 0; i < (stream ? 12 : 60); ++i) one(i, longest);
  }

 private:
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_.below(static_cast<uint64_t>(most - least + 1)));
  }
  bool one_of(uint64_t count) { return random_.below(count) == 0; }

  // The numbers of a quota, those that are drawn; the limit is noted.
  std::string numbers(const std::string& queue, const std::string& vendor, int64_t guaranteed) {
    std::string text = fmt::format(R"("guaranteed": {})", guaranteed);
    int64_t limit = INT64_MAX;
    if (one_of(2)) {
      limit = guaranteed + between(2, 20);
      text += fmt::format(R"(, "limit": {})", limit);
    }
    if (one_of(3)) {
      const int64_t borrowing = between(0, 8);
      limit = std::min(limit, guaranteed + borrowing);
      text += fmt::format(R"(, "borrowing": {})", borrowing);
    }
    if (one_of(3)) text += fmt::format(R"(, "lending": {})", between(0, guaranteed));
    if (limit != INT64_MAX) history_.limits[{queue, vendor}] = limit;
    return text;
  }

  std::string leaf(const std::string& name, const std::string& parent, int64_t guaranteed, int64_t cards) {
    leaves_.push_back(name);
    std::vector<std::string> quotas = {"{" + numbers(name, "", guaranteed) + "}"};
    const bool top = parent.empty();
    bool only_devices = true;
    switch (between(0, 7)) {
      case 0:
        quotas.push_back(R"({"vendor": "ascend", )" + numbers(name, "ascend", top ? 2 : 0) + "}");
        break;
      case 1:
        quotas.push_back(fmt::format(R"({{"counts": "Memory", "guaranteed": "{}Gi", "limit": "{}Gi"}})",
                                     top ? between(0, 4) * 80 : 0, between(4, 16) * 80));
        only_devices = false;
        break;
      case 2:
        quotas.push_back(fmt::format(R"({{"counts": "Cores", "limit": {}, "borrowing": {}}})", between(2, 16) * 100,
                                     between(1, 16) * 100));
        break;
      case 3:
        if (cards < 2) break;
        quotas.push_back(
            fmt::format(R"({{"counts": "Boxes", "model": "H100", "boxDevices": {}, "guaranteed": {}, "limit": {}}})",
                        cards, top ? between(0, 1) : 0, between(1, 4)));
        only_devices = false;
        break;
      default:
        break;
    }
    if (only_devices) history_.owed[name] = guaranteed;
    if (!top) history_.parents[name] = parent;
    return fmt::format(R"({{"name": "{}"{}, "weight": {}, "quotas": [{}]}})", name,
                       top ? std::string() : fmt::format(R"(, "parent": "{}")", parent), between(1, 3),
                       fmt::join(quotas, ", "));
  }

  // Two leaves below a queue that is below another.
  void add_tree(std::vector<std::string>& queues, int64_t cards) {
    const int64_t guaranteed = between(0, 10);
    const int64_t below = between(0, guaranteed);
    queues.push_back(fmt::format(R"({{"name": "t", "quotas": [{{{}}}]}})", numbers("t", "", guaranteed)));
    queues.push_back(fmt::format(R"({{"name": "u", "parent": "t", "quotas": [{{{}}}]}})", numbers("u", "", below)));
    history_.parents["u"] = "t";
    const int64_t first = between(0, below);
    queues.push_back(leaf("u1", "u", first, cards));
    queues.push_back(leaf("u2", "u", below - first, cards));
    queues.push_back(leaf("t1", "t", guaranteed - below, cards));
  }

  std::string reservations() {
    if (!one_of(4)) return {};
    history_.bounded = false;
    reserved_ = true;
    const int64_t start = between(300, 4000);
    return fmt::format(
        R"(, "reservations": [{{"name": "r", "queue": "a", "start": {}, "end": {}, "amounts": [{{"amount": {}}}]}}])",
        start, start + between(300, 3000), between(1, 6));
  }

  void one(int number, int64_t longest) {
    constexpr std::array kAsks = {R"({"devices": 4, "vendor": "nvidia", "model": "H100"})",
                                  R"({"devices": 1})",
                                  R"({"vendor": "ascend", "devices": 2})",
                                  R"({"memory": "8Gi", "cores": 30})",
                                  R"({"memory": "16Gi"})",
                                  R"({"vendor": "nvidia", "memoryPercent": 40, "devices": 2})",
                                  R"({"model": "L4", "memory": "20Gi", "cores": 100})",
                                  R"({"devices": 3})"};
    constexpr std::array kTopologies = {"", "", "", R"(, "topology": {"preferred": "rack"})",
                                        R"(, "topology": {"required": "rack"})"};
    const int64_t size = one_of(3) ? between(1, 6) : 1;
    const bool inside = reserved_ && one_of(6);
    history_.workloads.push_back(fmt::format(
        R"({{"name": "w{}", "arrival": {}, "duration": {}, "queue": "{}", "priority": {}, "request": {},
           "gang": {{"size": {}, "minimum": {}}}{}{}}})",
        number, between(0, 5400), between(60, longest), inside ? "a" : leaves_[random_.below(leaves_.size())],
        between(0, 3), kAsks[random_.below(kAsks.size())], size, between(1, size),
        kTopologies[random_.below(kTopologies.size())], inside ? R"(, "reservation": "r")" : ""));
  }

  SeededRandom& random_;
  History& history_;
  std::vector<std::string> leaves_;
  bool reserved_ = false;
};

History drawn(uint64_t seed) {
  SeededRandom random(seed);
  History history;
  Draw draw(random, history);
  draw.fleet();
  draw.work();
  return history;
}

// The first thing that is wrong; empty: nothing.
class Checker {
 public:
  Checker(const History& history, const SimulatedFleet& fleet, const std::vector<SimulatedWorkload>& workloads)
      : history_(&history), patience_(fleet.patience.value_or(Duration{}).nanos) {
    for (const SimulatedNode& node : fleet.nodes) {
      nodes_[node.name] = &node;
    }
    for (const SimulatedWorkload& workload : workloads) {
      workloads_[workload.name] = &workload;
      longest_ = std::max(longest_, workload.duration.nanos + fleet.grace.nanos);
    }
  }

  void look(const engine::State& state, Time now) {
    if (!wrong.empty()) return;
    members_.clear();
    used_.clear();
    holds_.clear();
    for (const engine::DeviceUse& device : state.device_uses()) look_at(device);
    for (const auto& [name, spots] : members_) look_at(*workloads_.at(name), spots);
    for (const auto& [name, spots] : members_) {
      began_.emplace(name, now.unix_nanos);
      ended_.erase(name);
    }
    for (const auto& [name, began] : began_) {
      if (!members_.contains(name)) ended_.emplace(name, now.unix_nanos);
    }
    for (const auto& [meter, limit] : history_->limits) {
      if (used_[meter] > limit * kWhole) {
        wrong = fmt::format("queue {} uses {} thousandths of devices {} with a limit of {}", meter.first, used_[meter],
                            meter.second, limit);
        for (const auto& [name, milli] : holds_) {
          if (workloads_.at(name)->queue == meter.first) wrong += fmt::format(", {} {}", name, milli);
        }
      }
    }
    if (!wrong.empty()) wrong += fmt::format(" at {} s", now.unix_nanos / kSecond);
  }

  // At the end: what its leaf is guaranteed has started in time (queueing.h). Single pods only, which fit everywhere
  // where they fit at all; n: what came before and had not ended when it began to starve.
  void look_back(const std::set<std::string>& never_placed) {
    if (!wrong.empty() || !history_->bounded) return;
    for (const auto& [name, workload] : workloads_) {
      const auto owed = history_->owed.find(workload->queue);
      if (owed == history_->owed.end() || workload->ask.devices > owed->second || workload->ask.vendor == "ascend" ||
          workload->members > 1 || never_placed.contains(name)) {
        continue;
      }
      const int64_t starves = workload->arrival.nanos + patience_;
      const int64_t before = std::count_if(workloads_.begin(), workloads_.end(), [&, of = workload](const auto& other) {
        const auto ended = ended_.find(other.first);
        return other.second->arrival.nanos <= of->arrival.nanos && other.second != of &&
               (ended == ended_.end() || ended->second > starves);
      });
      const int64_t bound = starves + 2 * (before + 1) * longest_;
      const auto began = began_.find(name);
      if (began != began_.end() && began->second <= bound) continue;
      wrong = fmt::format("{} of queue {} came at {} s and started at {} s: {} s were the bound, with {} before it",
                          name, workload->queue, workload->arrival.nanos / kSecond,
                          began == began_.end() ? -1 : began->second / kSecond, bound / kSecond, before);
      return;
    }
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
      for (std::string queue = workloads_.at(name)->queue; !queue.empty();) {
        used_[{queue, ""}] += milli;
        used_[{queue, vendor}] += milli;
        const auto parent = history_->parents.find(queue);
        queue = parent == history_->parents.end() ? std::string() : parent->second;
      }
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

  const History* history_;
  int64_t patience_;
  int64_t longest_ = 0;                   // nanoseconds that anything runs, with the grace of what is evicted
  std::map<std::string, int64_t> began_;  // nanoseconds: by workload, the first time
  std::map<std::string, int64_t> ended_;  // the last time
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
  std::set<std::string> never_placed;
  for (const Unplaced& unplaced : result->unplaced) never_placed.insert(unplaced.workload);
  checker.look_back(never_placed);
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
    const History history = drawn(seed);
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
  History history = drawn(1);
  history.limits[{"a", ""}] = 0;  // another one than the fleet says
  ASSERT_NE(run(history, 1).wrong, "");
  const History small = smallest(history, 1);
  EXPECT_EQ(small.workloads.size(), 1U);
  EXPECT_NE(run(small, 1).wrong.find("queue a uses"), std::string::npos);
}

}  // namespace
}  // namespace heddle::simulation
