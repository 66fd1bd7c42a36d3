#include "engine/cards.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/state_impl.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using test::kMiB;

// What packing sees of a node with four cards of 1000 MiB after something was done to it.
struct ViewCase {
  const char* name;
  std::function<void(State&, model::ResourceSlice&, model::Node&)> change;
  bool seen;
  std::vector<uint16_t> free;
};

void hold(State& state, const std::string& device, const char* memory, const char* cores) {
  model::DeviceResult result;
  result.request = "gpu";
  result.driver = test::kDriver;
  result.pool = "n/nvidia";
  result.device = device;
  if (memory != nullptr) {
    result.share_id = "share-" + device + memory;
    result.consumed_capacity = {{"memory", test::quantity(memory)}, {"cores", test::quantity(cores)}};
  }
  model::Allocation allocation;
  allocation.results.push_back(result);
  const std::string uid = "held-" + device + (memory == nullptr ? "" : memory);
  state.upsert_claim(test::granted({.key = "ns/" + uid, .uid = uid, .spec = {}}, allocation));
}

// The card and two halves of it, which share what is in a counter.
void cut(model::ResourceSlice& slice, size_t card) {
  slice.shared_counters.push_back({.name = "slots", .counters = {{"slots", test::quantity("2")}}});
  slice.devices[card].allow_multiple_allocations = false;
  slice.devices[card].capacity.clear();
  slice.devices[card].consumes_counters.push_back(
      {.counter_set = "slots", .counters = {{"slots", test::quantity("2")}}, .compatibility_groups = {}});
  for (const char* name : {"half-0", "half-1"}) {
    model::Device half = slice.devices[card];
    half.name = name;
    half.attributes["type"] = std::string("partition");
    half.consumes_counters[0].counters["slots"] = test::quantity("1");
    slice.devices.push_back(half);
  }
}

const std::vector<ViewCase> kViews = {
    {"AsItIs", [](auto&, auto&, auto&) {}, true, {1000, 1000, 1000, 1000}},
    {"AShareCountsByItsLargerPart",
     [](State& state, auto&, auto&) {
       hold(state, "gpu-0", "300Mi", "10");
       hold(state, "gpu-1", "100Mi", "45");
     },
     true,
     {700, 550, 1000, 1000}},
    {"SharesAddUp",
     [](State& state, auto&, auto&) {
       hold(state, "gpu-2", "300Mi", "10");
       hold(state, "gpu-2", "200Mi", "10");
     },
     true,
     {1000, 1000, 500, 1000}},
    {"AloneIsWhole",
     [](State& state, auto&, auto&) { hold(state, "gpu-3", "10Mi", "100"); },
     true,
     {1000, 1000, 1000, 0}},
    {"HeldWhole",
     [](State& state, auto&, auto&) { hold(state, "gpu-0", nullptr, nullptr); },
     true,
     {0, 1000, 1000, 1000}},
    {"ATaintedCardIsNoCard",
     [](auto&, auto& slice, auto&) {
       slice.devices[1].taints.push_back(
           {.key = "heddle.dev/unhealthy", .value = {}, .effect = "NoExecute", .added = {}});
     },
     true,
     {1000, 1000, 1000}},
    {"NorOneOfAnotherOwner",
     [](auto&, auto& slice, auto&) {
       slice.devices[1].taints.push_back(
           {.key = "heddle.dev/foreign-owner", .value = {}, .effect = "NoSchedule", .added = {}});
     },
     true,
     {1000, 1000, 1000}},
    {"PartitionsAreNoCards",
     [](auto&, auto& slice, auto&) {
       slice.devices.resize(1);
       cut(slice, 0);
     },
     true,
     {1000}},
    {"ACutCardIsTaken",
     [](State& state, auto& slice, auto&) {
       slice.devices.resize(1);
       cut(slice, 0);
       hold(state, "half-0", nullptr, nullptr);
     },
     true,
     {0}},
    {"TwoKindsAreNotSeen",
     [](auto&, auto& slice, auto&) { slice.devices[3].attributes["model"] = std::string("NVIDIA T4"); },
     false,
     {1000, 1000, 1000, 1000}},
    {"NorACordonedNode", [](auto&, auto&, model::Node& node) { node.unschedulable = true; }, false, {}},
    {"NorOneThatIsNotReady",
     [](auto&, auto&, model::Node& node) { node.ready = model::Node::Ready::kFalse; },
     false,
     {}},
    {"NorAnIncompletePool", [](auto&, auto& slice, auto&) { slice.pool_slice_count = 2; }, false, {}},
    {"NorAnotherDriver", [](auto&, auto& slice, auto&) { slice.driver = "gpu.example.com"; }, false, {}},
};

class CardsView : public testing::TestWithParam<ViewCase> {};

TEST_P(CardsView, IsWhatTheNodeHas) {
  State state;
  model::ResourceSlice slice = test::make_slice("n", 4, 1000 * kMiB);
  model::Node node = test::make_node("n");
  GetParam().change(state, slice, node);
  state.upsert_node(node);
  state.upsert_slice(slice);
  const NodeEntry& entry = state.inside().inventory.nodes().at("n");
  const NodeCards cards = cards_of(entry, test::kDriver, state.inside().options);
  std::vector<uint16_t> free;
  free.reserve(cards.cards.size());
  for (const Card& card : cards.cards) free.push_back(free_milli(*card.device));
  EXPECT_EQ(free, GetParam().free);
  EXPECT_EQ(!cards.kind.empty(), GetParam().seen) << cards.kind;
}

INSTANTIATE_TEST_SUITE_P(Table, CardsView, testing::ValuesIn(kViews),
                         [](const auto& given) { return std::string(given.param.name); });

// Eight cards: two link domains of four would be {0..3} {4..7}, NUMA nodes the same, PCIe roots in pairs.
std::vector<Card> box(bool links, bool numas, bool roots) {
  std::vector<Card> cards;
  cards.reserve(8);
  for (int i = 0; i < 8; ++i) {
    cards.push_back(
        {.device = nullptr, .link = links ? i / 4 : -1, .root = roots ? i / 2 : -1, .numa = numas ? i / 4 : -1});
  }
  return cards;
}

// Four modules of two dies each.
std::vector<Card> modules(bool roots = false) {
  std::vector<Card> cards = box(false, true, false);
  for (int i = 0; i < 8; ++i) {
    Card& card = cards[static_cast<size_t>(i)];
    card.module = i / 2;
    if (roots) card.root = i % 2;  // each die has its own
  }
  return cards;
}

struct CloseCase {
  const char* name;
  std::vector<Card> cards;
  std::vector<size_t> from;
  size_t count;
  std::vector<size_t> taken;
};

const std::vector<CloseCase> kClose = {
    {"NothingSaidIsInOrder", box(false, false, false), {1, 3, 5, 7}, 2, {1, 3}},
    {"APairOnOneRoot", box(true, true, true), {0, 2, 4, 5, 6}, 2, {4, 5}},
    {"ARootBeforeATighterNumaNode", box(false, true, true), {0, 2, 4, 5, 6, 7}, 2, {4, 5}},
    {"TheNumaNodeLeftWithTheFewest", box(false, true, true), {0, 2, 3, 5, 6}, 2, {2, 3}},
    {"NoRootHasTwoSoOneNumaNode", box(false, true, true), {0, 2, 4, 6, 7}, 3, {6, 7, 4}},
    {"FourInOneDomain", box(true, true, true), {0, 1, 2, 4, 5, 6, 7}, 4, {4, 5, 6, 7}},
    {"SixFromTwoDomainsTheFullOneFirst", box(true, true, true), {0, 1, 2, 4, 5, 6, 7}, 6, {4, 5, 6, 7, 0, 1}},
    {"OneLeavesPairsWhole", box(false, true, true), {0, 1, 3, 4, 5}, 1, {3}},
    {"OnlyNumaIsKnown", box(false, true, false), {0, 1, 4, 5, 6}, 3, {4, 5, 6}},
    {"TwoOfOneModule", modules(), {1, 2, 3, 5, 6, 7}, 2, {2, 3}},
    {"OneOfABrokenModule", modules(), {0, 1, 3, 4, 5}, 1, {3}},
    {"FourOfTwoModules", modules(), {1, 2, 3, 5, 6, 7}, 4, {2, 3, 6, 7}},
    {"TheOddOneOfABrokenModule", modules(), {0, 1, 3, 4, 5}, 3, {0, 1, 3}},
    {"TheOddOneBreaksOne", modules(), {0, 1, 4, 5, 6, 7}, 3, {4, 5, 6}},
    {"ModulesOfOneNumaNode", modules(), {0, 1, 2, 4, 5, 6, 7}, 4, {4, 5, 6, 7}},
    {"AModuleBeforeARoot", modules(true), {0, 2, 4, 5}, 2, {4, 5}},
    {"WithoutWholeModulesAnyDo", modules(), {0, 2, 4}, 2, {0, 2}},
    {"OnlyRootsAreKnown", box(false, false, true), {0, 2, 3, 5}, 3, {2, 3, 0}},
};

class CardsClose : public testing::TestWithParam<CloseCase> {};

TEST_P(CardsClose, AreTaken) {
  EXPECT_EQ(close_together(GetParam().cards, GetParam().from, GetParam().count), GetParam().taken);
}

INSTANTIATE_TEST_SUITE_P(Table, CardsClose, testing::ValuesIn(kClose),
                         [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace heddle::engine
