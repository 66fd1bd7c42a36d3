#include "engine/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using testing::ElementsAre;

class EvictionTest : public testing::Test {
 protected:
  EvictionTest() {
    state_.upsert_class(test::make_class());
    for (const char* name : {"node-1", "node-2"}) {
      state_.upsert_node(test::make_node(name));
      state_.upsert_slice(test::make_slice(name, 2, 80000 * test::kMiB));
    }
    pod_.meta.uid = "p";
  }

  // A pod that runs with this claim and cpu; its id is the claim's and the pod's uid.
  void run(const std::string& id, const test::Ask& ask, int64_t cpu, const std::string& node) {
    const ClaimRequest claim = test::make_claim(id, ask);
    PlacementRequest request;
    request.claims.push_back(claim);
    request.pinned_node = node;
    const auto outcome = state_.place(request, random_);
    ASSERT_TRUE(outcome.has_value() && std::holds_alternative<Assigned>(*outcome));
    state_.upsert_claim(test::granted(claim, std::get<Assigned>(*outcome).allocations[0]));
    state_.upsert_pod_usage(id, node, {{"cpu", cpu}});
    holdings_[id] = {{id}, {id}};
    victims_[id].id = id;
  }

  bool fits(const std::string& node, const test::Ask& ask, const std::vector<std::string>& gone) {
    PlacementRequest request;
    request.pod = &pod_;
    request.claims.push_back(test::make_claim("p", ask));
    auto room = RoomWithout::make(state_, request, holdings_);
    EXPECT_TRUE(room.has_value());
    std::vector<const queueing::Victim*> list;
    for (const std::string& id : gone) list.push_back(&victims_.at(id));
    return room && (*room)->fits(node, list);
  }

  State state_;
  SeededRandom random_{1};
  model::Pod pod_;
  std::map<std::string, VictimHoldings> holdings_;
  std::map<std::string, queueing::Victim> victims_;
};

TEST_F(EvictionTest, DevicesOfThoseThatGoAreFree) {
  run("a", {}, 1000, "node-1");
  run("b", {.memory = "60000Mi", .cores = "50"}, 1000, "node-1");
  EXPECT_FALSE(fits("node-1", {}, {}));
  EXPECT_TRUE(fits("node-1", {}, {"a"}));
  EXPECT_TRUE(fits("node-1", {}, {"b"}));
  EXPECT_FALSE(fits("node-1", {.count = 2}, {"a"}));
  EXPECT_TRUE(fits("node-1", {.count = 2}, {"a", "b"}));
  EXPECT_TRUE(fits("node-1", {.memory = "20000Mi", .cores = "50"}, {}));
  EXPECT_FALSE(fits("node-1", {.memory = "20001Mi", .cores = "50"}, {}));
  EXPECT_TRUE(fits("node-2", {.count = 2}, {}));
  EXPECT_FALSE(fits("node-3", {}, {})) << "there is no such node";
  PlacementRequest request;
  request.claims.push_back(test::make_claim("p", {}));
  EXPECT_EQ((*RoomWithout::make(state_, request, holdings_))->room_now(), "node-2");
  run("c", {.count = 2}, 0, "node-2");
  EXPECT_EQ((*RoomWithout::make(state_, request, holdings_))->room_now(), std::nullopt);
}

TEST_F(EvictionTest, SharesOfOneCardGoOneByOne) {
  run("a", {.memory = "40000Mi", .cores = "0"}, 0, "node-1");
  run("b", {.memory = "40000Mi", .cores = "0"}, 0, "node-1");
  run("c", {}, 0, "node-1");
  EXPECT_FALSE(fits("node-1", {.memory = "50000Mi", .cores = "0"}, {"a"}));
  EXPECT_TRUE(fits("node-1", {.memory = "40000Mi", .cores = "0"}, {"a"}));
  EXPECT_TRUE(fits("node-1", {.memory = "50000Mi", .cores = "0"}, {"a", "b"}));
}

TEST_F(EvictionTest, PlainResourcesAndTaintsCount) {
  model::Container main;
  main.requests["cpu"] = test::quantity("60");
  pod_.containers = {main};
  state_.upsert_pod_usage("web", "node-2", {{"cpu", 10000}});
  holdings_["web"] = {{"web"}, {}};
  victims_["web"].id = "web";
  EXPECT_FALSE(fits("node-2", {}, {}));
  EXPECT_TRUE(fits("node-2", {}, {"web"}));
  model::Node closed = test::make_node("node-2");
  closed.unschedulable = true;
  state_.upsert_node(closed);
  EXPECT_FALSE(fits("node-2", {}, {"web"}));
}

// From the queue to the card: what was borrowed is taken back on the node where it was.
TEST_F(EvictionTest, ReclaimThroughTheQueues) {
  queueing::Config config;
  config.meters = {{.name = "cards",
                    .kind = queueing::Meter::Kind::kDevices,
                    .device_class = {},
                    .vendor = {},
                    .model = {},
                    .shape = {}}};
  for (const char* name : {"root", "a", "b"}) {
    config.queues.push_back(
        {.name = name, .parent = std::string(name) == "root" ? "" : "root", .weight = 1, .quotas = {}});
    config.queues.back().quotas["cards"].guaranteed = std::string(name) == "root" ? 4000 : 2000;
  }
  queueing::Queues queues = queueing::Queues::make(std::move(config)).value();
  queueing::Preemptions preemptions(queues);
  const auto submit = [&](const std::string& id, const std::string& queue) {
    queueing::Portion card;
    card.milli_devices = 1000;
    EXPECT_TRUE(queues
                    .submit({.id = id,
                             .queue = queue,
                             .priority = 0,
                             .submitted = {},
                             .portions = {card},
                             .runtime = {},
                             .reservation = {}},
                            {})
                    .has_value());
  };
  int64_t start = 0;
  for (const auto& [id, node] : std::vector<std::pair<std::string, std::string>>{
           {"v1", "node-1"}, {"v2", "node-1"}, {"v3", "node-2"}, {"v4", "node-2"}}) {
    run(id, {}, 0, node);
    submit(id, "a");
    queues.start(id, Time{++start});
    preemptions.upsert({id, "a", 0, Time{start}, 1000, node, false});
  }
  submit("p", "b");
  PlacementRequest request;
  request.pod = &pod_;
  request.claims.push_back(test::make_claim("p", {}));
  auto room = RoomWithout::make(state_, request, holdings_);
  ASSERT_TRUE(room.has_value());
  const auto answer = preemptions.plan("p", Time{10}, **room);
  ASSERT_TRUE(answer.eviction.has_value());
  EXPECT_EQ(answer.eviction->site, "node-2");
  EXPECT_THAT(answer.eviction->victims, ElementsAre("v4"));
  EXPECT_THAT(queues.violations(), ElementsAre());
}

}  // namespace
}  // namespace heddle::engine
