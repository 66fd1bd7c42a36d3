// place() of the engine on the fleet of the end-to-end benchmark: 130 nodes with 8 cards.
#include <benchmark/benchmark.h>

#include "engine/engine.h"
#include "engine/gang.h"
#include "engine/test_fleet.h"

namespace {

using heddle::SeededRandom;
namespace engine = heddle::engine;
namespace test = heddle::engine::test;

engine::State make_state(int nodes) {
  engine::State state;
  state.upsert_class(test::make_class());
  for (int i = 0; i < nodes; ++i) {
    const std::string name = "node-" + std::to_string(1000 + i);
    state.upsert_node(test::make_node(name));
    state.upsert_slice(test::make_slice(name, 8, 80000 * test::kMiB));
  }
  return state;
}

heddle::model::Pod make_pod() {
  heddle::model::Pod pod;
  heddle::model::Container container;
  container.name = "main";
  container.requests = {{"cpu", test::quantity("500m")}, {"memory", test::quantity("1Gi")}};
  pod.containers.push_back(container);
  return pod;
}

// Fills the fleet with `pods` grants of the given ask, and gives back how many fitted.
int fill(engine::State& state, const test::Ask& ask, int pods, SeededRandom& random) {
  const heddle::model::Pod pod = make_pod();
  for (int i = 0; i < pods; ++i) {
    engine::PlacementRequest request;
    request.pod = &pod;
    request.claims.push_back(test::make_claim("ns/p" + std::to_string(i), ask));
    const auto outcome = state.place(request, random);
    const auto* assigned = outcome ? std::get_if<engine::Assigned>(&*outcome) : nullptr;
    if (assigned == nullptr) return i;
    state.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
    state.upsert_pod_usage(std::to_string(i), assigned->node, {{"cpu", 500}, {"memory", int64_t{1} << 30}});
  }
  return pods;
}

void place(benchmark::State& bench, const test::Ask& ask, int filled) {
  SeededRandom random(1);
  engine::State state = make_state(static_cast<int>(bench.range(0)));
  const int held = fill(state, ask, filled, random);
  const heddle::model::Pod pod = make_pod();
  engine::PlacementRequest request;
  request.pod = &pod;
  request.claims.push_back(test::make_claim("ns/new", ask));
  for (auto _ : bench) {
    auto outcome = state.place(request, random);
    benchmark::DoNotOptimize(outcome);
  }
  bench.counters["held"] = held;
}

void share_on_empty_fleet(benchmark::State& bench) {
  place(bench, {.memory = "8000Mi", .cores = "10"}, 0);
}
void share_beside_1000(benchmark::State& bench) {
  place(bench, {.memory = "8000Mi", .cores = "10"}, 1000);
}
void whole_card_beside_1000(benchmark::State& bench) {
  place(bench, {}, 1000);
}
void no_card_left(benchmark::State& bench) {
  place(bench, {}, 100'000);
}

// The end-to-end shape: each pod is placed and granted, from empty to full.
void thousand_pods(benchmark::State& bench) {
  for (auto _ : bench) {
    bench.PauseTiming();
    SeededRandom random(1);
    engine::State state = make_state(static_cast<int>(bench.range(0)));
    bench.ResumeTiming();
    benchmark::DoNotOptimize(fill(state, {}, 1000, random));
  }
  bench.SetItemsProcessed(bench.iterations() * 1000);
}

// 500 nodes x 8 in racks of 20: what is asked for by a gang, after `held` cards were taken.
void gang(benchmark::State& bench, int64_t members, int64_t cards, const std::string& required, int held) {
  SeededRandom random(1);
  engine::State state;
  state.upsert_class(test::make_class());
  for (int i = 0; i < 500; ++i) {
    const std::string name = "node-" + std::to_string(1000 + i);
    heddle::model::Node node = test::make_node(name);
    node.meta.labels["heddle.dev/rack"] = "rack-" + std::to_string(i / 20);
    state.upsert_node(node);
    state.upsert_slice(test::make_slice(name, 8, 80000 * test::kMiB));
  }
  fill(state, {}, held, random);
  const heddle::model::Pod pod = make_pod();
  engine::GangRequest request;
  request.name = "gang";
  request.minimum = members;
  request.required = required;
  if (required.empty()) request.preferred = "rack";
  for (int64_t i = 0; i < members; ++i) {
    engine::GangMember member;
    member.request.pod = &pod;
    member.request.claims.push_back(test::make_claim("ns/m" + std::to_string(i), {.count = cards}));
    request.members.push_back(std::move(member));
  }
  bool placed = false;
  for (auto _ : bench) {
    const auto outcome = engine::place_gang(state, engine::default_topology(), request, random);
    placed = outcome && std::holds_alternative<engine::GangAssigned>(*outcome);
  }
  bench.counters["placed"] = placed ? 1 : 0;
}

void gang_of_512(benchmark::State& bench) {
  gang(bench, 512, 1, "", 0);
}
// Ten members of eight cards, beside 3,921 single cards.
void no_for_80_cards(benchmark::State& bench) {
  gang(bench, 10, 8, "", 4000 - 79);
}
// The same where only the required rack is in the way: 80 cards of 160.
void no_for_80_cards_in_a_rack(benchmark::State& bench) {
  gang(bench, 80, 1, "rack", 4000 - 79);
}

BENCHMARK(gang_of_512)->Unit(benchmark::kMillisecond);
BENCHMARK(no_for_80_cards)->Unit(benchmark::kMillisecond);
BENCHMARK(no_for_80_cards_in_a_rack)->Unit(benchmark::kMillisecond);
BENCHMARK(share_on_empty_fleet)->Arg(130)->Unit(benchmark::kMicrosecond);
BENCHMARK(share_beside_1000)->Arg(130)->Unit(benchmark::kMicrosecond);
BENCHMARK(whole_card_beside_1000)->Arg(130)->Unit(benchmark::kMicrosecond);
BENCHMARK(no_card_left)->Arg(130)->Unit(benchmark::kMicrosecond);
BENCHMARK(thousand_pods)->Arg(130)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
