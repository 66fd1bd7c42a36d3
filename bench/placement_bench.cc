// How well and how fast placement fills a fleet.
//
//   placement_bench [--traces DIR] [--seeds N]
//
// With the public openb trace in DIR: every list, policy and load, N seeds from 42 (default 10). Then steady
// state with departures and waiting pods. Without it, and always: steady state on a fleet of mixed vendors, 5,000 nodes
// with 8 cards, and gangs on 500 nodes. The table goes to standard error, one flat JSON object to standard output.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "placement/gang.h"
#include "placement/replay.h"
#include "placement/steady.h"

namespace {

using namespace heddle::placement;  // NOLINT(google-build-using-namespace): a benchmark of it
using heddle::Result;

constexpr uint64_t kFirstSeed = 42;

struct Column {
  const char* name;  // in the names of metrics; empty: the default
  PolicyName policy;
  bool known;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {{"", PolicyName::kHeddle, false},
                                          {"known.", PolicyName::kHeddle, true},
                                          {"fgd.", PolicyName::kFgd, true},
                                          {"bestfit.", PolicyName::kBestFit, true},
                                          {"random.", PolicyName::kRandom, true}};
  return all;
}

// Mean over seeds of one column at one load.
struct Sample {
  double percent = 0;
  double deviation = 0;
  double cold_per_second = 0;
  double per_second = 0;  // the same stream again, with everything learnt and remembered
};

// Of this thread: what a decision costs, whatever else the machine does.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<Sample> measure(const Trace& trace, const Column& column, int64_t load, int seeds) {
  std::vector<double> percents;
  double cold = 0;
  double warm = 0;
  double decisions = 0;
  for (int i = 0; i < seeds; ++i) {
    const uint64_t seed = kFirstSeed + static_cast<uint64_t>(i);
    HEDDLE_TRY(const auto arrivals, arrival_stream(trace, load, seed));
    PlacerOptions options{column.policy, std::nullopt, seed};
    if (column.known) options.known_mix = mix_of(trace);
    HEDDLE_TRY(auto replay, Replay::start(trace, std::move(options)));
    double start = cpu_seconds();
    HEDDLE_CHECK_OK(replay.run(arrivals, 0, arrivals.size()));
    cold += cpu_seconds() - start;
    percents.push_back(replay.result().allocated_percent());
    HEDDLE_CHECK_OK(replay.clear());
    start = cpu_seconds();
    HEDDLE_CHECK_OK(replay.run(arrivals, 0, arrivals.size()));
    warm += cpu_seconds() - start;
    decisions += static_cast<double>(arrivals.size());
  }
  Sample sample{0, 0, decisions / cold, decisions / warm};
  for (const double percent : percents) sample.percent += percent / seeds;
  for (const double percent : percents) sample.deviation += (percent - sample.percent) * (percent - sample.percent);
  sample.deviation = seeds > 1 ? std::sqrt(sample.deviation / (seeds - 1)) : 0;
  return sample;
}

using Metrics = std::map<std::string, double>;

Result<void> run_openb(const std::string& folder, int seeds, Metrics& metrics) {
  HEDDLE_TRY(const std::string nodes, heddle::read_file(folder + "/openb_node_list_gpu_node.csv"));
  for (const std::string mix : {"default", "gpuspec33", "gpushare100", "multigpu50"}) {
    HEDDLE_TRY(const std::string pods, heddle::read_file(folder + "/openb_pod_list_" + mix + ".csv"));
    HEDDLE_TRY(const Trace trace, parse_trace({"nodes", nodes}, {mix, pods}));
    for (const int64_t load : {100, 130}) {
      for (const Column& column : columns()) {
        HEDDLE_TRY(const Sample sample, measure(trace, column, load, seeds));
        const std::string name = fmt::format("placement.openb.{}.{}.{}", mix, load, column.name);
        metrics[name + "percent"] = sample.percent;
        metrics[name + "decisions_per_second"] = sample.per_second;
        metrics[name + "cold_decisions_per_second"] = sample.cold_per_second;
        fmt::print(stderr, "{:<12} {:>4}% {:<9} {:6.2f}% (sd {:.2f})  {:>8.0f}/s again, {:>8.0f}/s cold\n", mix, load,
                   *column.name == '\0' ? "heddle" : column.name, sample.percent, sample.deviation, sample.per_second,
                   sample.cold_per_second);
      }
    }
  }
  return {};
}

// A fleet of equal nodes and a made-up mix: a sixth without cards, shares of seven sizes, single cards and a few large
// pods.
Trace made_up(size_t nodes) {
  Trace trace;
  trace.models = {"made-up"};
  trace.nodes.assign(nodes, Node{96'000, int64_t{384} << 30, std::vector<uint16_t>(8, kWholeCard), 0});
  constexpr int64_t kGib = int64_t{1} << 30;
  const auto add = [&trace](int count, const Request& request) {
    trace.pods.insert(trace.pods.end(), static_cast<size_t>(count), TracePod{request, 0, 0});
  };
  for (int64_t step = 1; step <= 8; ++step) {
    add(40, {step * 2000, step * 8 * kGib, 0, 0, {}});
    for (const int milli : {100, 200, 250, 300, 500, 650, 800}) add(12, {step * 1000, step * 4 * kGib, 1, milli, {}});
    add(80, {step * 1500, step * 6 * kGib, 1, kWholeCard, {}});
  }
  add(30, {16'000, 64 * kGib, 2, kWholeCard, {}});
  add(20, {32'000, 128 * kGib, 4, kWholeCard, {}});
  add(20, {64'000, 256 * kGib, 8, kWholeCard, {}});
  return trace;
}

Result<void> run_made_up(size_t nodes, Metrics& metrics) {
  HEDDLE_TRY(const Sample sample, measure(made_up(nodes), columns().front(), 110, 1));
  const std::string name = fmt::format("placement.nodes{}.", nodes);
  metrics[name + "percent"] = sample.percent;
  metrics[name + "decisions_per_second"] = sample.per_second;
  metrics[name + "cold_decisions_per_second"] = sample.cold_per_second;
  fmt::print(stderr, "{} nodes x 8: {:.2f}%  {:.0f}/s again, {:.0f}/s cold\n", nodes, sample.percent, sample.per_second,
             sample.cold_per_second);
  return {};
}

// Pods come, run at most an hour, leave, and wait in between.
Result<void> run_steady_loads(const Trace& trace, const std::string& name, const std::string& metric, int64_t pods,
                              Metrics& metrics) {
  for (const int64_t load : {90, 105}) {
    for (const Column& column : columns()) {
      if (column.known && column.policy == PolicyName::kHeddle) continue;
      HEDDLE_TRY(const SteadyResult result,
                 run_steady(trace, {column.policy, std::nullopt, kFirstSeed}, {load, pods, 3'600, kFirstSeed}));
      const std::string key = fmt::format("{}.steady{}.{}", metric, load, column.name);
      metrics[key + "percent"] = result.allocated_percent;
      metrics[key + "fragmented_percent"] = result.fragmented_percent;
      metrics[key + "mean_wait_seconds"] = result.mean_wait_seconds;
      metrics[key + "p99_wait_seconds"] = result.p99_wait_seconds;
      fmt::print(stderr,
                 "{:<10} steady {:>3}% {:<8} {:6.2f}% in use, {:5.2f}% fragmented, waits: mean {:5.1f} s, p99 {:4.0f} "
                 "s; {} pods ({} cards) wait at the end\n",
                 name, load, *column.name == '\0' ? "heddle" : column.name, result.allocated_percent,
                 result.fragmented_percent, result.mean_wait_seconds, result.p99_wait_seconds, result.waiting,
                 result.waiting_card_milli / kWholeCard);
    }
  }
  return {};
}

Result<void> run_steady_state(const std::string& folder, Metrics& metrics) {
  HEDDLE_TRY(const std::string nodes, heddle::read_file(folder + "/openb_node_list_gpu_node.csv"));
  for (const std::string mix : {"default", "gpuspec33"}) {
    HEDDLE_TRY(const std::string pods, heddle::read_file(folder + "/openb_pod_list_" + mix + ".csv"));
    HEDDLE_TRY(const Trace trace, parse_trace({"nodes", nodes}, {mix, pods}));
    HEDDLE_CHECK_OK(run_steady_loads(trace, mix, "placement.openb." + mix, 30'000, metrics));
  }
  return {};
}

// A fleet of four vendors: large boxes for training, smaller ones, and cards for inference. Most pods name one model,
// some two, some take any card. Drawn by seed; runs take two minutes to an hour.
Trace mixed_fleet(int tens) {
  Trace trace;
  trace.models = {"H100", "910B", "MI300X", "A10", "MLU370"};
  trace.has_times = true;
  constexpr int64_t kGiB = int64_t{1} << 30;
  const auto add = [&](Kind kind, int nodes, size_t cards, int64_t cpus, int64_t gib) {
    const Node node{cpus * 1000, gib * kGiB, std::vector<uint16_t>(cards, kWholeCard), kind};
    trace.nodes.insert(trace.nodes.end(), static_cast<size_t>(nodes * tens), node);
  };
  add(0, 3, 8, 192, 2048);
  add(1, 2, 8, 192, 1536);
  add(2, 1, 8, 192, 2048);
  add(3, 3, 4, 64, 256);
  add(4, 1, 8, 96, 512);
  struct Shape {
    int weight;
    int cards;
    int milli;
    std::vector<Kind> kinds;
  };
  const std::vector<Shape> shapes = {{8, 8, kWholeCard, {0}},    {5, 8, kWholeCard, {1}},  {3, 8, kWholeCard, {2}},
                                     {6, 4, kWholeCard, {0, 2}}, {8, 2, kWholeCard, {0}},  {6, 2, kWholeCard, {1}},
                                     {12, 1, kWholeCard, {}},    {10, 1, kWholeCard, {3}}, {6, 1, kWholeCard, {1}},
                                     {14, 1, 500, {3}},          {10, 1, 250, {0, 3}},     {6, 1, 300, {4}},
                                     {4, 4, kWholeCard, {4}},    {2, 4, kWholeCard, {}}};
  heddle::SeededRandom random(kFirstSeed);
  for (const Shape& shape : shapes) {
    for (int i = 0; i < shape.weight * 20; ++i) {
      TracePod pod;
      pod.request.cpu_milli = int64_t{shape.cards} * (2 + static_cast<int64_t>(random.below(9))) * 1000;
      pod.request.memory_bytes = int64_t{shape.cards} * (8 + static_cast<int64_t>(random.below(57))) * kGiB;
      pod.request.cards = shape.cards;
      pod.request.milli = shape.milli;
      pod.request.kinds = shape.kinds;
      pod.deleted = 120 + static_cast<int64_t>(random.below(3'481));
      trace.pods.push_back(std::move(pod));
    }
  }
  return trace;
}

// `nodes` nodes with 8 cards, ten a rack, ten racks a supernode; the first `used` cards are taken.
struct GangFleet {
  NodeClasses nodes;
  Topology topology;
};

Result<GangFleet> gang_fleet(size_t nodes, size_t used) {
  GangFleet fleet{{}, {{"rack", "supernode"}, {{}, {}}}};
  for (size_t i = 0; i < nodes; ++i) {
    Node node{96'000, int64_t{384} << 30, std::vector<uint16_t>(8, kWholeCard), 0};
    for (size_t card = 0; card < 8; ++card) node.free_milli[card] = i * 8 + card < used ? 0 : kWholeCard;
    HEDDLE_TRY([[maybe_unused]] const NodeId id, fleet.nodes.add(node));
    fleet.topology.domains[0].push_back(static_cast<Domain>(i / 10));
    fleet.topology.domains[1].push_back(static_cast<Domain>(i / 100));
  }
  return fleet;
}

Result<void> time_gang(const char* name, const GangFleet& fleet, const Gang& gang, bool fits, Metrics& metrics) {
  const auto start = std::chrono::steady_clock::now();
  HEDDLE_TRY(const GangOutcome outcome, place_gang(fleet.nodes, fleet.topology, gang));
  const double millis = seconds_since(start) * 1000;
  if (std::holds_alternative<GangPlaced>(outcome) != fits) {
    return heddle::fail(heddle::Code::kInternal, fmt::format("{}: the wrong answer", name));
  }
  metrics[name] = millis;
  fmt::print(stderr, "{}: {:.2f} ms\n", name, millis);
  return {};
}

Result<void> run_gangs(size_t nodes, Metrics& metrics) {
  const Request card{1000, int64_t{1} << 30, 1, kWholeCard, {}};
  const int members = nodes >= 500 ? 512 : 64;
  HEDDLE_TRY(const GangFleet empty, gang_fleet(nodes, 0));
  HEDDLE_CHECK_OK(
      time_gang("placement.gang512_ms", empty, {{{card, members, members}}, std::nullopt, 0}, true, metrics));
  HEDDLE_TRY(const GangFleet full, gang_fleet(nodes, nodes * 8 - 79));
  return time_gang("placement.verdict80_ms", full, {{{card, 80, 80}}, std::nullopt, 0}, false, metrics);
}

Result<Metrics> run_all(const std::string& traces, int seeds, size_t nodes) {
  Metrics metrics;
  if (traces.empty()) {
    fmt::print(stderr, "placement: the public trace is not here; --traces DIR or HEDDLE_TRACES names its folder\n");
  } else {
    HEDDLE_CHECK_OK(run_openb(traces, seeds, metrics));
    HEDDLE_CHECK_OK(run_steady_state(traces, metrics));
  }
  const bool small = nodes < 100;
  HEDDLE_CHECK_OK(
      run_steady_loads(mixed_fleet(small ? 1 : 50), "mixed", "placement.mixed", small ? 500 : 30'000, metrics));
  HEDDLE_CHECK_OK(run_made_up(nodes, metrics));
  HEDDLE_CHECK_OK(run_gangs(std::min<size_t>(nodes, 500), metrics));
  return metrics;
}

}  // namespace

int main(int argc, char** argv) {
  std::string traces;
  int seeds = 10;
  size_t nodes = 5000;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--small") {
      seeds = 1;
      nodes = 20;
    } else if (i + 1 < argc && flag == "--traces") {
      traces = argv[++i];
    } else if (i + 1 < argc && flag == "--seeds" && std::atoi(argv[i + 1]) > 0) {
      seeds = std::atoi(argv[++i]);
    } else {
      fmt::print(stderr, "usage: placement_bench [--traces DIR] [--seeds N] [--small]\n");
      return 1;
    }
  }
  const auto metrics = run_all(traces, seeds, nodes);
  if (!metrics) {
    fmt::print(stderr, "placement: {}\n", metrics.error().text());
    return 3;
  }
  std::string text;
  for (const auto& [name, value] : *metrics)
    text += fmt::format("{}\n \"{}\": {:.6g}", text.empty() ? "" : ",", name, value);
  fmt::print("{{{}\n}}\n", text);
  return 0;
}
