// Dies of modules: as many as fill modules are whole modules or nothing, a single one takes what is left of a broken
// one.
#include "engine/modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "engine/gang.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class ModulesTest : public testing::Test {
 protected:
  ModulesTest() { state_.upsert_class(test::make_class()); }

  // Dies 0 and 1 are module 0, and so on; those of `sick` are not to be used.
  void add_node(const std::string& name, int dies, const std::set<int>& sick = {}) {
    state_.upsert_node(test::make_node(name));
    model::ResourceSlice slice = test::make_slice(name, dies, 65536 * test::kMiB);
    for (int i = 0; i < dies; ++i) {
      model::Device& device = slice.devices[static_cast<size_t>(i)];
      device.attributes["module"] = std::to_string(i / 2);
      if (sick.contains(i))
        device.taints.push_back({.key = "heddle.dev/unhealthy", .value = {}, .effect = "NoSchedule", .added = {}});
    }
    state_.upsert_slice(slice);
  }

  // Those of the node that it got, "gpu-2"; "no: ..." where it waits.
  std::vector<std::string> place(int64_t count, const std::string& node = {},
                                 model::PlacementPolicy policy = model::PlacementPolicy::kPacking) {
    PlacementRequest request;
    request.claims.push_back(test::make_claim("ns/c" + std::to_string(placed_++), {.count = count}));
    if (!node.empty()) request.pinned_node = node;
    request.policy = policy;
    const auto outcome = state_.place(request, random_);
    if (!outcome) return {outcome.error().text()};
    if (const auto* waiting = std::get_if<Waiting>(&*outcome)) return {"no: " + waiting->reasons.at(0).message};
    const auto* assigned = std::get_if<Assigned>(&*outcome);
    if (assigned == nullptr) return {"never"};
    state_.upsert_claim(test::granted(request.claims[0], assigned->allocations.at(0)));
    return devices_of(assigned->allocations.at(0));
  }
  static std::vector<std::string> devices_of(const model::Allocation& allocation) {
    std::vector<std::string> devices;
    for (const model::DeviceResult& result : allocation.results) devices.push_back(result.device);
    return devices;
  }
  void hold(const std::string& node, int die) {
    state_.upsert_claim(test::held(node + std::to_string(die), node, die, 65536 * test::kMiB, 100));
  }

  State state_;
  SeededRandom random_{5};
  int placed_ = 0;
};

// The vendor's own example: of 0, 2, 3 and 4 a job of two gets 2 and 3.
TEST_F(ModulesTest, TwoAreTheDiesOfOneModule) {
  for (const auto policy : {model::PlacementPolicy::kPacking, model::PlacementPolicy::kBestFit,
                            model::PlacementPolicy::kSpread, model::PlacementPolicy::kLeastLoaded}) {
    state_ = State();
    state_.upsert_class(test::make_class());
    add_node("n", 6);
    hold("n", 1);
    hold("n", 5);
    EXPECT_THAT(place(2, "", policy), UnorderedElementsAre("gpu-2", "gpu-3"));
    EXPECT_THAT(place(2, "", policy),
                ElementsAre(HasSubstr("no: no node has whole modules for 2 whole cards; n has enough only "
                                      "with modules of which a part is in use")));
    EXPECT_THAT(place(1, "", policy), ElementsAre(testing::AnyOf("gpu-0", "gpu-4")));
  }
}

TEST_F(ModulesTest, ASingleOneBreaksNoModuleWhereOneIsBroken) {
  add_node("n", 8);
  hold("n", 4);
  EXPECT_THAT(place(1), ElementsAre("gpu-5"));
  EXPECT_THAT(place(6), UnorderedElementsAre("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-6", "gpu-7"));
}

TEST_F(ModulesTest, AnotherNodeHasAWholeOne) {
  add_node("a", 2);
  add_node("b", 4);
  hold("a", 0);
  hold("b", 0);
  hold("b", 2);
  add_node("c", 8);
  EXPECT_THAT(place(2), UnorderedElementsAre("gpu-0", "gpu-1")) << "of c, though a and b are fuller";
  EXPECT_THAT(place(1), ElementsAre("gpu-1")) << "of a";
}

TEST_F(ModulesTest, ASickDieTakesItsModuleAlong) {
  add_node("n", 4, {3});
  EXPECT_THAT(place(1), ElementsAre("gpu-2")) << "alone it is good";
  EXPECT_THAT(place(2), UnorderedElementsAre("gpu-0", "gpu-1"));
}

TEST_F(ModulesTest, WithSickDiesAloneLeftItWaitsForThem) {
  add_node("n", 4, {0, 3});
  EXPECT_THAT(place(2), ElementsAre(HasSubstr("n has enough only with modules of which a part is out of order")));
}

TEST_F(ModulesTest, AModuleIsWholeForEachContainerOfAPod) {
  add_node("n", 6);
  hold("n", 0);
  PlacementRequest request;
  for (const char* key : {"ns/a", "ns/b"}) request.claims.push_back(test::make_claim(key, {.count = 2}));
  const auto outcome = state_.place(request, random_);
  ASSERT_TRUE(outcome && std::holds_alternative<Assigned>(*outcome));
  std::set<std::vector<std::string>> dies;
  for (const auto& allocation : std::get<Assigned>(*outcome).allocations) dies.insert(devices_of(allocation));
  EXPECT_EQ(dies, (std::set<std::vector<std::string>>{{"gpu-2", "gpu-3"}, {"gpu-4", "gpu-5"}}));
}

// A die that is cut is in use: its partitions consume its counters, not the die itself.
TEST_F(ModulesTest, ADieOfWhichAPartitionIsHeldBreaksItsModule) {
  state_.upsert_node(test::make_node("n"));
  model::ResourceSlice slice = test::make_slice("n", 4, 65536 * test::kMiB);
  for (size_t i = 0; i < 4; ++i) {
    const std::string set = "die-" + std::to_string(i);
    slice.shared_counters.push_back({.name = set, .counters = {{"slots", test::quantity("2")}}});
    slice.devices[i].attributes["module"] = std::to_string(i / 2);
    slice.devices[i].consumes_counters.push_back(
        {.counter_set = set, .counters = {{"slots", test::quantity("2")}}, .compatibility_groups = {}});
  }
  model::Device part = slice.devices[1];
  part.name = "gpu-1-part";
  part.attributes["type"] = std::string("partition");
  part.attributes.erase("module");
  part.allow_multiple_allocations = false;
  part.consumes_counters[0].counters["slots"] = test::quantity("1");
  slice.devices.push_back(part);
  state_.upsert_slice(slice);
  model::ResourceClaim cut = test::held("cut", "n", 1, test::kMiB);
  cut.allocation->results[0].device = "gpu-1-part";
  cut.allocation->results[0].share_id.clear();
  cut.allocation->results[0].consumed_capacity.clear();
  state_.upsert_claim(cut);
  EXPECT_THAT(place(2), UnorderedElementsAre("gpu-2", "gpu-3"));
  EXPECT_THAT(place(2), ElementsAre(HasSubstr("no: ")));
  state_.remove_claim("cut");
  EXPECT_THAT(place(2), UnorderedElementsAre("gpu-0", "gpu-1"));
}

TEST_F(ModulesTest, MembersOfAGangHaveWholeModules) {
  add_node("a", 6);
  add_node("b", 6);
  hold("a", 2);
  hold("b", 0);
  hold("b", 5);
  const auto gang = [&](int members, int64_t count = 2) {
    GangRequest request;
    request.name = "g";
    request.minimum = members;
    for (int i = 0; i < members; ++i) {
      GangMember one;
      one.request.claims.push_back(test::make_claim("ns/m" + std::to_string(i), {.count = count}));
      one.shape = std::to_string(count);
      request.members.push_back(std::move(one));
    }
    return place_gang(state_, default_topology(), request, random_);
  };
  const auto three = gang(3);
  ASSERT_TRUE(three.has_value());
  const auto* assigned = std::get_if<GangAssigned>(&*three);
  ASSERT_NE(assigned, nullptr);
  std::set<std::string> modules;
  for (const auto& member : assigned->members) {
    auto dies = devices_of(member->allocations.at(0));
    std::sort(dies.begin(), dies.end());
    modules.insert(member->node + ":" + dies[0] + "," + dies[1]);
  }
  EXPECT_THAT(modules, UnorderedElementsAre("a:gpu-0,gpu-1", "a:gpu-4,gpu-5", "b:gpu-2,gpu-3"));
  const auto singles = gang(2, 1);
  ASSERT_TRUE(singles.has_value());
  std::set<std::string> broken;
  for (const auto& member : std::get<GangAssigned>(*singles).members)
    broken.insert(member->node + ":" + devices_of(member->allocations.at(0))[0]);
  EXPECT_THAT(broken, UnorderedElementsAre("b:gpu-1", "b:gpu-4")) << "both on one node, of broken modules";
  const auto four = gang(4);
  ASSERT_TRUE(four.has_value());
  EXPECT_TRUE(std::holds_alternative<Waiting>(*four)) << "eight dies are free, six of them in whole modules";
}

TEST_F(ModulesTest, WithoutModulesAnyTwoDo) {
  state_.upsert_node(test::make_node("n"));
  state_.upsert_slice(test::make_slice("n", 4, 65536 * test::kMiB));
  hold("n", 1);
  hold("n", 3);
  EXPECT_THAT(place(2), UnorderedElementsAre("gpu-0", "gpu-2"));
}

// Random histories: no die twice, pairs in whole modules, and a single die breaks none while its node has a broken one.
// A pair that waits is one that no node has a whole module for.
TEST_F(ModulesTest, HistoriesKeepModulesWhole) {
  constexpr int kDies = 8;
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    state_ = State();
    state_.upsert_class(test::make_class());
    for (const char* node : {"a", "b"}) add_node(node, kDies);
    SeededRandom random(seed);
    constexpr std::array kPolicies = {model::PlacementPolicy::kPacking, model::PlacementPolicy::kBestFit,
                                      model::PlacementPolicy::kSpread, model::PlacementPolicy::kLeastLoaded};
    std::map<std::string, std::vector<std::string>> live;  // by claim: "a/gpu-3"
    const auto used = [&] {
      std::map<std::string, int> dies;
      for (const auto& [key, all] : live) {
        for (const std::string& die : all) ++dies[die];
      }
      return dies;
    };
    for (int step = 0; step < 80; ++step) {
      if (random.below(3) == 0 && !live.empty()) {
        const auto ended = std::next(live.begin(), static_cast<int64_t>(random.below(live.size())));
        state_.remove_claim(ended->first);
        live.erase(ended);
        continue;
      }
      const auto before = used();
      const auto free_of = [&](const std::string& node, int die) {
        return !before.contains(node + "/gpu-" + std::to_string(die));
      };
      std::map<std::string, int> whole;   // modules that are free, by node
      std::map<std::string, int> broken;  // of which one die is free
      for (const std::string node : {"a", "b"}) {
        for (int die = 0; die < kDies; die += 2) {
          const int free = int{free_of(node, die)} + int{free_of(node, die + 1)};
          whole[node] += free == 2 ? 1 : 0;
          broken[node] += free == 1 ? 1 : 0;
        }
      }
      const std::string key = "ns/s" + std::to_string(step);
      PlacementRequest request;
      const auto count = static_cast<int64_t>(random.below(4)) + 1;
      request.claims.push_back(test::make_claim(key, {.count = count}));
      request.policy = kPolicies[seed % kPolicies.size()];
      const auto outcome = state_.place(request, random);
      ASSERT_TRUE(outcome.has_value()) << outcome.error().text();
      const auto* assigned = std::get_if<Assigned>(&*outcome);
      if (assigned == nullptr) {
        for (const std::string node : {"a", "b"}) {
          const bool fits = count % 2 == 0 ? 2 * whole[node] >= count : 2 * whole[node] + broken[node] >= count;
          EXPECT_FALSE(fits) << count << " on " << node;
        }
        continue;
      }
      std::map<int, int> modules;
      for (const std::string& device : devices_of(assigned->allocations[0])) {
        live[key].push_back(assigned->node + "/" + device);
        ++modules[std::stoi(device.substr(4)) / 2];
      }
      int parts = 0;
      for (const auto& [module, dies] : modules) parts += dies == 1 ? 1 : 0;
      EXPECT_TRUE(count % 2 != 0 || parts == 0) << count << " dies, " << parts << " of them alone";
      if (count == 1 && broken[assigned->node] > 0) {
        const int die = std::stoi(live[key][0].substr(6));
        EXPECT_FALSE(free_of(assigned->node, die ^ 1)) << live[key][0] << " breaks a module";
      }
      for (const auto& [die, holders] : used()) EXPECT_EQ(holders, 1) << die;
      state_.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
    }
  }
}

}  // namespace
}  // namespace heddle::engine
