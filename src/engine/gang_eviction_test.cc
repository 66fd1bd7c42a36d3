#include "engine/gang_eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class GangEvictionTest : public testing::Test {
 protected:
  GangEvictionTest() { state_.upsert_class(test::make_class()); }

  void add_node(const std::string& name, int cards, const std::map<std::string, std::string>& labels = {}) {
    model::Node node = test::make_node(name);
    for (const auto& [key, value] : labels) node.meta.labels[key] = value;
    state_.upsert_node(node);
    state_.upsert_slice(test::make_slice(name, cards, 80000 * test::kMiB));
  }

  // A victim: pods that run, with a claim of `cards` and cpu each, one on each of the nodes.
  void run(const std::string& id, int64_t cards, const std::vector<std::string>& nodes, int64_t cpu = 0) {
    victims_[id].id = id;
    for (const std::string& node : nodes) {
      const std::string name = id + "@" + node;
      const ClaimRequest claim = test::make_claim(name, {.count = cards});
      PlacementRequest request;
      request.claims.push_back(claim);
      request.pinned_node = node;
      const auto outcome = state_.place(request, random_);
      ASSERT_TRUE(outcome.has_value() && std::holds_alternative<Assigned>(*outcome));
      state_.upsert_claim(test::granted(claim, std::get<Assigned>(*outcome).allocations[0]));
      state_.upsert_pod_usage(name, node, {{"cpu", cpu}});
      holdings_[id].pod_uids.push_back(name);
      holdings_[id].claim_uids.push_back(name);
    }
  }

  // Members with so many cards each.
  GangRequest gang(int size, int64_t cards) {
    GangRequest request;
    request.name = "g";
    request.minimum = size;
    for (int i = 0; i < size; ++i) {
      GangMember member;
      member.request.pod = &pod_;
      member.request.claims.push_back(test::make_claim("m" + std::to_string(i), {.count = cards}));
      member.shape = std::to_string(cards);
      request.members.push_back(std::move(member));
    }
    return request;
  }

  // The nodes that it would take; none: it does not fit.
  std::set<std::string> without(GangRoomWithout& room, const std::vector<std::string>& gone) {
    std::vector<const queueing::Victim*> list;
    for (const std::string& id : gone) list.push_back(&victims_.at(id));
    const bool fits = room.fits({}, list);
    EXPECT_EQ(fits, !room.sites().empty());
    return room.sites();
  }
  std::set<std::string> without(const GangRequest& request, const std::vector<std::string>& gone) {
    auto room = GangRoomWithout::make(state_, default_topology(), request, holdings_);
    EXPECT_TRUE(room.has_value());
    return without(**room, gone);
  }

  State state_;
  SeededRandom random_{1};
  model::Pod pod_;
  std::map<std::string, VictimHoldings> holdings_;
  std::map<std::string, queueing::Victim> victims_;
};

TEST_F(GangEvictionTest, RoomOnSeveralNodesCountsTogether) {
  for (const char* node : {"n1", "n2", "n3"}) add_node(node, 2);
  run("a", 2, {"n1"});
  run("b", 2, {"n2"});
  run("c", 1, {"n3"});
  const GangRequest request = gang(3, 1);
  auto room = GangRoomWithout::make(state_, default_topology(), request, holdings_);
  ASSERT_TRUE(room.has_value());
  EXPECT_FALSE((*room)->single_site());
  EXPECT_THAT(without(**room, {}), IsEmpty());
  EXPECT_THAT(without(**room, {"c"}), IsEmpty());
  EXPECT_THAT(without(**room, {"a"}), ElementsAre("n1", "n3"));
  EXPECT_THAT(without(**room, {"b"}), ElementsAre("n2", "n3")) << "what was assumed before holds no more";
  EXPECT_THAT(without(**room, {}), IsEmpty());
  EXPECT_THAT(without(gang(2, 2), {"a", "b"}), ElementsAre("n1", "n2"));
  EXPECT_THAT(without(gang(2, 2), {"a", "c"}), ElementsAre("n1", "n3"));
}

TEST_F(GangEvictionTest, AGangThatGoesFreesAllItsNodes) {
  for (const char* node : {"n1", "n2"}) add_node(node, 1);
  run("whole", 1, {"n1", "n2"});
  EXPECT_THAT(without(gang(2, 1), {}), IsEmpty());
  EXPECT_THAT(without(gang(2, 1), {"whole"}), ElementsAre("n1", "n2"));
}

TEST_F(GangEvictionTest, OneDomainHasToTakeAllWhereThatIsRequired) {
  add_node("n1", 1, {{"heddle.dev/rack", "r1"}});
  add_node("n2", 1, {{"heddle.dev/rack", "r1"}});
  add_node("n3", 1, {{"heddle.dev/rack", "r2"}});
  for (const char* node : {"n1", "n2", "n3"}) run(node, 1, {node});
  GangRequest request = gang(2, 1);
  request.required = "rack";
  EXPECT_THAT(without(request, {"n1", "n3"}), IsEmpty());
  EXPECT_THAT(without(request, {"n1", "n2"}), ElementsAre("n1", "n2"));
  request.fixed_nodes = {"n3"};
  EXPECT_THAT(without(request, {"n1", "n2"}), IsEmpty()) << "the others are in the other rack";
}

TEST_F(GangEvictionTest, PlainResourcesOfThoseThatGoAreFree) {
  add_node("n1", 4);
  model::Container main;
  main.requests["cpu"] = test::quantity("20");
  pod_.containers = {main};
  state_.upsert_pod_usage("web", "n1", {{"cpu", 50000}});
  holdings_["web"] = {{"web", "web"}, {}};  // named twice it is free once
  victims_["web"].id = "web";
  EXPECT_THAT(without(gang(3, 1), {}), IsEmpty());
  EXPECT_THAT(without(gang(3, 1), {"web"}), ElementsAre("n1"));
  EXPECT_THAT(without(gang(4, 1), {"web"}), IsEmpty()) << "64 cpus are for three";
}

TEST_F(GangEvictionTest, ASliceOfATorus) {
  for (int x = 0; x < 2; ++x) {
    add_node("t" + std::to_string(x), 4,
             {{"heddle.dev/torus", "t"},
              {"heddle.dev/torus-shape", "4x2x1"},
              {"heddle.dev/torus-host", "2x2x1"},
              {"heddle.dev/torus-position", std::to_string(x) + "-0-0"}});
  }
  run("a", 4, {"t0"});
  run("b", 4, {"t1"});
  GangRequest request = gang(2, 4);
  request.required = "slice-4x2x1";
  EXPECT_THAT(without(request, {"a"}), IsEmpty());
  EXPECT_THAT(without(request, {"a", "b"}), ElementsAre("t0", "t1"));
}

}  // namespace
}  // namespace heddle::engine
