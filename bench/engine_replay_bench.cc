// The public trace replayed through the engine: what State::place() allocates and how long it takes, with claims,
// selectors, the exact allocator and the ledger. The protocol of placement/replay.h: pods arrive one at a time, nobody
// leaves, nobody is tried twice. Prints one line a run.
//   engine_replay_bench NODES.csv PODS.csv LOAD_PERCENT POLICY [SEEDS]     seeds: 42 and so on; 1 unless it is said
//   engine_replay_bench NODES CARDS ARRIVALS POLICY                        a made-up fleet, a made-up mix
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "engine/engine.h"
#include "engine/test_fleet.h"
#include "placement/replay.h"

namespace {

using heddle::SeededRandom;
namespace engine = heddle::engine;
namespace model = heddle::model;
namespace placement = heddle::placement;
namespace test = heddle::engine::test;

constexpr uint64_t kFirstSeed = 42;
using Clock = std::chrono::steady_clock;

model::Pod pod_of(const placement::Request& request) {
  model::Container container;
  container.name = "main";
  constexpr int64_t kNanoInMilli = 1'000'000;
  container.requests["cpu"] = heddle::Quantity::from_nano(heddle::Int128{request.cpu_milli} * kNanoInMilli,
                                                          heddle::Quantity::Format::kDecimalSi);
  container.requests["memory"] = heddle::Quantity::bytes(request.memory_bytes);
  model::Pod pod;
  pod.containers.push_back(container);
  return pod;
}

// A thousandth of a card is a MiB of its memory.
void add_node(engine::State& state, const std::string& name, const placement::Node& node, const std::string& model) {
  model::Node object = test::make_node(name);
  const placement::Request all{.cpu_milli = node.cpu_milli, .memory_bytes = node.memory_bytes, .kinds = {}};
  const model::ResourceList amounts = pod_of(all).containers[0].requests;
  for (const auto& [resource, amount] : amounts) object.allocatable[resource] = amount;
  object.allocatable["pods"] = test::quantity("10000");
  state.upsert_node(object);
  auto slice = test::make_slice(name, static_cast<int>(node.free_milli.size()), placement::kWholeCard * test::kMiB);
  for (model::Device& device : slice.devices) device.attributes["model"] = model;
  state.upsert_slice(slice);
}

std::vector<engine::ClaimRequest> claims_of(const placement::Request& request, const std::vector<std::string>& models) {
  std::vector<engine::ClaimRequest> claims;
  if (request.cards == 0) return claims;
  test::Ask ask{.count = request.cards};
  if (request.milli < placement::kWholeCard) {
    ask.memory = fmt::format("{}Mi", request.milli);
    ask.cores = "0";
  }
  claims.push_back(test::make_claim("claim", ask));
  if (request.kinds.empty()) return claims;
  std::string list;
  for (const placement::Kind kind : request.kinds)
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", models[kind]);
  claims[0].spec.requests[0].exactly->selectors.push_back(
      fmt::format(R"(device.attributes["accelerator.heddle.dev"].model in [{}])", list));
  return claims;
}

struct Result {
  int64_t decisions = 0;
  int64_t placed = 0;
  int64_t milli = 0;
  double place_seconds = 0;  // of those that were placed
  double no_seconds = 0;     // of those that were refused, with their reasons
  double other_seconds = 0;  // arrivals, ledger and usage
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
 public:
  Run(const placement::Trace& trace, model::PlacementPolicy policy) : trace_(trace), policy_(policy) {
    state_.upsert_class(test::make_class());
    for (size_t i = 0; i < trace.nodes.size(); ++i) {
      add_node(state_, fmt::format("node-{:05}", i), trace.nodes[i], trace.models[trace.nodes[i].kind]);
    }
  }

  void arrive(const placement::Request& asked) {
    const model::Pod pod = pod_of(asked);
    engine::PlacementRequest request;
    request.pod = &pod;
    request.claims = claims_of(asked, trace_.models);
    request.policy = policy_;
    for (engine::ClaimRequest& claim : request.claims) claim.key = claim.uid = fmt::format("ns/{}", result_.decisions);
    const auto start = Clock::now();
    state_.arrive(request);
    const auto arrived = Clock::now();
    const auto outcome = state_.place(request, random_);
    const double seconds = since(arrived);
    result_.other_seconds += std::chrono::duration<double>(arrived - start).count();
    const auto* assigned = outcome ? std::get_if<engine::Assigned>(&*outcome) : nullptr;
    ++result_.decisions;
    (assigned != nullptr ? result_.place_seconds : result_.no_seconds) += seconds;
    if (assigned == nullptr) return;
    ++result_.placed;
    result_.milli += asked.card_milli();
    std::vector<model::ResourceClaim> granted;
    granted.reserve(request.claims.size());
    for (size_t i = 0; i < request.claims.size(); ++i)
      granted.push_back(test::granted(request.claims[i], assigned->allocations[i]));
    const auto ledger = Clock::now();
    for (const model::ResourceClaim& claim : granted) state_.upsert_claim(claim);
    state_.upsert_pod_usage(std::to_string(result_.decisions), assigned->node, model::effective_requests(pod));
    result_.other_seconds += since(ledger);
  }

  [[nodiscard]] const Result& result() const { return result_; }

 private:
  const placement::Trace& trace_;
  model::PlacementPolicy policy_;
  engine::State state_;
  SeededRandom random_{1};
  Result result_;
};

void print(const Result& result, int64_t milli, std::string_view what) {
  const auto refused = result.decisions - result.placed;
  fmt::print(
      "{}: allocated {:.2f} %, {} of {} placed; {:.0f} placements/s, with arrival and ledger {:.0f}/s, {:.0f} us a "
      "no\n",
      what, 100.0 * static_cast<double>(result.milli) / static_cast<double>(milli), result.placed, result.decisions,
      static_cast<double>(result.placed) / result.place_seconds,
      static_cast<double>(result.placed) / (result.place_seconds + result.other_seconds),
      refused == 0 ? 0 : result.no_seconds * 1e6 / static_cast<double>(refused));
}

int complain(const heddle::Error& error) {
  fmt::print(stderr, "engine_replay: {}\n", error.text());
  return 3;
}

int trace_run(char** argv, int64_t load, model::PlacementPolicy policy, uint64_t seeds) {
  const auto nodes = heddle::read_file(argv[1]);
  const auto pods = heddle::read_file(argv[2]);
  if (!nodes || !pods) return complain((nodes ? pods : nodes).error());
  const auto trace = placement::parse_trace({argv[1], *nodes}, {argv[2], *pods});
  if (!trace) return complain(trace.error());
  double sum = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + seeds; ++seed) {
    const auto arrivals = placement::arrival_stream(*trace, load, seed);
    if (!arrivals) return complain(arrivals.error());
    Run run(*trace, policy);
    for (const uint32_t pod : *arrivals) run.arrive(trace->pods[pod].request);
    print(run.result(), trace->card_milli(), fmt::format("{} seed {} load {}", model::policy_name(policy), seed, load));
    sum += 100.0 * static_cast<double>(run.result().milli) / static_cast<double>(trace->card_milli());
  }
  fmt::print("{} load {}: mean {:.2f} %\n", model::policy_name(policy), load, sum / static_cast<double>(seeds));
  return 0;
}

// Shares of a tenth to four fifths, whole cards, some boxes; two models, which an eighth of the work is tied to.
placement::Request made_up(SeededRandom& random) {
  constexpr int kShares[] = {100, 160, 230, 290, 330, 400, 460, 500, 590, 810};
  constexpr int64_t kGiB = int64_t{1} << 30;
  placement::Request request{.cpu_milli = 500 * (1 + static_cast<int64_t>(random.below(8))),
                             .memory_bytes = kGiB * (1 + static_cast<int64_t>(random.below(8))),
                             .cards = 1,
                             .milli = placement::kWholeCard,
                             .kinds = {}};
  const uint64_t what = random.below(20);
  if (what < 11) request.milli = kShares[random.below(10)];
  if (what >= 17) request.cards = what == 19 ? 8 : 2;
  if (random.below(8) == 0) request.kinds = {static_cast<placement::Kind>(random.below(2))};
  return request;
}

int fleet_run(int nodes, int cards, int arrivals, model::PlacementPolicy policy) {
  placement::Trace fleet;
  fleet.models = {"H100", "A100"};
  for (int i = 0; i < nodes; ++i) {
    fleet.nodes.push_back({.cpu_milli = 128'000,
                           .memory_bytes = int64_t{1} << 40,
                           .free_milli = std::vector<uint16_t>(static_cast<size_t>(cards), placement::kWholeCard),
                           .kind = static_cast<placement::Kind>(i % 2)});
  }
  Run run(fleet, policy);
  SeededRandom random(kFirstSeed);
  for (int i = 0; i < arrivals; ++i) run.arrive(made_up(random));
  print(run.result(), fleet.card_milli(), fmt::format("{}, {} nodes x {}", model::policy_name(policy), nodes, cards));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto policy = argc > 4 ? heddle::model::parse_placement_policy(argv[4])
                               : heddle::Result<model::PlacementPolicy>(model::PlacementPolicy::kPacking);
  if (argc < 5 || !policy) {
    fmt::print(stderr,
               "usage: engine_replay_bench NODES.csv PODS.csv LOAD_PERCENT POLICY [SEEDS]\n"
               "       engine_replay_bench NODES CARDS ARRIVALS POLICY\n");
    return 1;
  }
  if (std::atoi(argv[1]) > 0) return fleet_run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), *policy);
  return trace_run(argv, std::atoi(argv[3]), *policy, argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 1);
}
