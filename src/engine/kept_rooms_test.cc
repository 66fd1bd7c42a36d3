// Room that is kept for work that is to start when others have ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/eviction.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const test::Ask kWhole;

test::Ask share(const std::string& memory) {
  return {.memory = memory, .cores = "0"};
}

// One node with two cards of 80000Mi and 64 processors.
class KeptRoomsTest : public testing::Test {
 protected:
  KeptRoomsTest() {
    state_.upsert_class(test::make_class());
    state_.upsert_node(test::make_node("n1"));
    state_.upsert_slice(test::make_slice("n1", 2, 80000 * test::kMiB));
  }

  PlacementRequest request_of(const std::string& id, const test::Ask& ask, const char* cpu = "0") {
    pod_.meta.uid = id;
    model::Container main;
    main.requests["cpu"] = test::quantity(cpu);
    pod_.containers = {main};
    PlacementRequest request;
    request.pod = &pod_;
    request.claims.push_back(test::make_claim(id, ask));
    return request;
  }
  // The card that it would have now; else why it has none.
  std::string place(const std::string& id, const test::Ask& ask, const char* cpu = "0") {
    const auto outcome = state_.place(request_of(id, ask, cpu), random_);
    EXPECT_TRUE(outcome.has_value());
    if (const auto* assigned = std::get_if<Assigned>(&*outcome)) return assigned->allocations[0].results[0].device;
    const auto* waiting = std::get_if<Waiting>(&*outcome);
    return waiting == nullptr ? "never" : waiting->reasons.at(0).message;
  }
  bool has_room(const std::string& id, const test::Ask& ask, const char* cpu = "0") {
    return place(id, ask, cpu).starts_with("gpu-");
  }
  void run(const std::string& id, const test::Ask& ask, int64_t milli_cpu = 0) {
    const auto outcome = state_.place(request_of(id, ask), random_);
    ASSERT_TRUE(outcome && std::holds_alternative<Assigned>(*outcome)) << id;
    const auto& assigned = std::get<Assigned>(*outcome);
    state_.upsert_claim(test::granted(test::make_claim(id, ask), assigned.allocations[0]));
    state_.upsert_pod_usage(id, "n1", {{"cpu", milli_cpu}});
    victims_[id] = {{id}, {id}};
  }
  void end(const std::string& id) {
    state_.remove_claim(id);
    state_.remove_pod_usage(id);
  }
  // Room for it in the place of these.
  void keep(const std::string& id, const test::Ask& ask, const std::vector<std::string>& gone, const char* cpu = "0") {
    const PlacementRequest request = request_of(id, ask, cpu);
    auto room = RoomWithout::make(state_, request, victims_).value();
    auto kept = room->room_at("n1", gone);
    ASSERT_TRUE(kept) << id;
    state_.keep_room(id, *std::move(kept));
  }
  bool fits(const std::string& id, const test::Ask& ask, const std::vector<std::string>& gone, const char* cpu = "0") {
    const PlacementRequest request = request_of(id, ask, cpu);
    auto room = RoomWithout::make(state_, request, victims_).value();
    const bool fits = room->room_at("n1", gone).has_value();
    std::vector<queueing::Victim> victims(gone.size());
    std::vector<const queueing::Victim*> those;
    for (size_t i = 0; i < gone.size(); ++i) {
      victims[i].id = gone[i];
      those.push_back(&victims[i]);
    }
    EXPECT_EQ(room->fits("n1", those), fits);
    return fits;
  }
  bool later(const std::string& id, const test::Ask& ask) {
    const PlacementRequest request = request_of(id, ask);
    return RoomWithout::make(state_, request, victims_).value()->room_later();
  }

  State state_;
  SeededRandom random_{1};
  model::Pod pod_;
  std::map<std::string, VictimHoldings> victims_;
};

TEST_F(KeptRoomsTest, TheCardIsForNobodyElseAndTheOtherOneIsOpen) {
  run("v", kWhole);
  run("w", kWhole);
  const uint64_t before = state_.generation();
  keep("p", kWhole, {"v"});
  EXPECT_EQ(state_.generation(), before) << "nobody can start that could not before";
  EXPECT_FALSE(fits("q", kWhole, {"v"}));
  EXPECT_TRUE(fits("q", kWhole, {"w"}));
  end("v");
  EXPECT_FALSE(has_room("q", share("1Mi")));
  EXPECT_THAT(place("q", kWhole), HasSubstr("kept for p"));
  EXPECT_THAT(place("q", kWhole), HasSubstr("fits when w ends")) << "what is kept does not end";
  const uint64_t then = state_.generation();
  state_.free_room("p");
  EXPECT_GT(state_.generation(), then);
  EXPECT_TRUE(has_room("p", kWhole));
}

TEST_F(KeptRoomsTest, WhatTheMakersStillHaveOfACardCountsOnce) {
  run("w", kWhole);
  run("v", share("30000Mi"));
  run("x", share("30000Mi"));
  keep("p", share("50000Mi"), {"v"});
  for (const bool gone : {false, true}) {
    if (gone) end("v");
    EXPECT_FALSE(has_room("q", share("1Mi"))) << "30000 of v or later of p, 30000 of x, 20000 more of p";
    EXPECT_TRUE(fits("q", share("30000Mi"), {"x"}));
    EXPECT_FALSE(fits("q", share("30001Mi"), {"x"}));
  }
  state_.free_room("p");
  EXPECT_TRUE(has_room("p", share("50000Mi")));
}

TEST_F(KeptRoomsTest, SoDoPlainResources) {
  const test::Ask some = share("1Mi");
  run("v", some, 40000);
  state_.upsert_pod_usage("web", "n1", {{"cpu", 15000}});
  keep("p", some, {"v"}, "45");
  // v has 40, p will have 5 more.
  EXPECT_TRUE(has_room("q", some, "4"));
  EXPECT_FALSE(has_room("q", some, "5"));
  end("v");
  EXPECT_TRUE(has_room("q", some, "4"));
  EXPECT_FALSE(has_room("q", some, "5"));
  state_.free_room("p");
  EXPECT_TRUE(has_room("q", some, "49"));
}

TEST_F(KeptRoomsTest, APodTakesThePlaceOfOne) {
  model::Node node = test::make_node("n1");
  node.allocatable["pods"] = test::quantity("3");
  state_.upsert_node(node);
  run("v", kWhole);
  run("w", share("1Mi"));
  keep("p", kWhole, {"v"});
  EXPECT_TRUE(has_room("q", share("1Mi"))) << "the third";
  end("v");
  EXPECT_TRUE(has_room("q", share("1Mi"))) << "p is the second";
  state_.upsert_pod_usage("web", "n1", {});
  EXPECT_FALSE(has_room("q", share("1Mi")));
}

TEST_F(KeptRoomsTest, ItIsNoGrant) {
  run("v", kWhole);
  run("w", kWhole);
  keep("p", kWhole, {"v"});
  EXPECT_THAT(state_.over_commits(), IsEmpty());
  const auto holders = [&] {
    std::string out;
    for (const DeviceUse& use : state_.device_uses()) {
      for (const DeviceUse::Holder& holder : use.holders) out += holder.claim_uid + " ";
    }
    return out;
  };
  EXPECT_EQ(holders().size(), 4U) << "v and w";
  end("v");
  EXPECT_EQ(holders(), "w ");
  state_.remove_slice("n1-heddle-nvidia-0");
  EXPECT_EQ(state_.device_uses().size(), 1U) << "of what is gone, the card of w alone";
}

TEST_F(KeptRoomsTest, WhatIsLeftBesideItIsSeen) {
  EXPECT_FALSE(later("q", kWhole)) << "nobody leaves";
  run("v", {.count = 2});
  keep("p", kWhole, {"v"});
  EXPECT_TRUE(later("q", kWhole));
  EXPECT_FALSE(later("q", {.count = 2}));
  EXPECT_FALSE(has_room("q", kWhole)) << "it has not gone yet";
  state_.free_room("p");
  EXPECT_FALSE(later("q", kWhole));
  keep("p", {.count = 2}, {"v"});
  EXPECT_FALSE(later("q", share("1Mi"))) << "all of it is kept";
}

// Four of one card each in the place of four on one node: each has a card of its own.
TEST_F(KeptRoomsTest, GuestsCountOnItOnce) {
  run("v", {.count = 2});
  keep("p", kWhole, {"v"});
  const PlacementRequest request = request_of("q", kWhole);
  auto room = RoomWithout::make(state_, request, victims_).value()->later_room();
  ASSERT_TRUE(room);
  const uint64_t before = state_.generation();
  state_.keep_room("q", *std::move(room));
  EXPECT_FALSE(later("r", kWhole));
  state_.free_room("q");
  EXPECT_TRUE(later("r", kWhole));
  EXPECT_EQ(state_.generation(), before);
  end("v");
  EXPECT_TRUE(has_room("r", kWhole)) << "it was no promise";
}

TEST_F(KeptRoomsTest, SeveralAreKeptOnOneNode) {
  state_.upsert_node(test::make_node("n1"));
  state_.upsert_slice(test::make_slice("n1", 4, 80000 * test::kMiB));
  for (const char* id : {"v0", "v1", "v2", "v3"}) run(id, kWhole, 16000);
  for (const char* number : {"0", "1", "2", "3"}) {
    const std::string victim = std::string("v") + number;
    EXPECT_FALSE(fits("p", kWhole, {}, "16"));
    keep(std::string("p") + number, kWhole, {victim}, "16");
  }
  EXPECT_FALSE(fits("q", kWhole, {"v0", "v1", "v2", "v3"}));
  std::set<std::string> cards;
  for (const char* number : {"3", "0", "2", "1"}) {
    end(std::string("v") + number);
    const std::string id = std::string("p") + number;
    state_.free_room(id);
    cards.insert(place(id, kWhole, "16"));
    run(id, kWhole, 16000);
  }
  EXPECT_THAT(cards, testing::ElementsAre("gpu-0", "gpu-1", "gpu-2", "gpu-3"));
  EXPECT_THAT(state_.over_commits(), IsEmpty());
}

}  // namespace
}  // namespace heddle::engine
