#include "engine/box_rooms.h"

#include <gtest/gtest.h>

#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using Nodes = std::set<std::string>;

model::QuotaMeter boxes(int64_t devices, const std::string& model = "") {
  model::QuotaMeter meter;
  meter.counts = model::QuotaMeter::Counts::kBoxes;
  meter.box_devices = devices;
  meter.model = model;
  return meter;
}

// Two nodes of eight cards each; one meter of boxes of four.
class BoxRoomsTest : public testing::Test {
 protected:
  BoxRoomsTest() {
    state_.upsert_class(test::make_class());
    for (const char* node : {"a", "b"}) {
      state_.upsert_node(test::make_node(node));
      state_.upsert_slice(test::make_slice(node, 8, 80000 * test::kMiB));
    }
  }
  // So many whole cards of the node.
  model::Allocation take(const std::string& id, const std::string& node, int64_t count) {
    const ClaimRequest claim = test::make_claim(id, {.count = count});
    PlacementRequest request;
    request.claims.push_back(claim);
    request.pinned_node = node;
    const auto outcome = state_.place(request, random_);
    model::Allocation allocation = std::get<Assigned>(*outcome).allocations.at(0);
    state_.upsert_claim(test::granted(claim, allocation));
    return allocation;
  }
  BoxRooms look(const std::vector<BoxHolder>& holders = {}) const {
    return BoxRooms::look(state_, default_topology(), meters_, holders);
  }

  State state_;
  SeededRandom random_{1};
  std::vector<model::QuotaMeter> meters_ = {boxes(4)};
};

TEST_F(BoxRoomsTest, OnlyWhatWouldBreakAKeptBoxIsNotOpened) {
  EXPECT_EQ(look().nodes_kept({4}, 1), (Nodes{"a", "b"})) << "all four are to be kept";
  EXPECT_EQ(look().nodes_kept({3}, 4), Nodes{}) << "one may be broken";
  EXPECT_EQ(look().nodes_kept({3}, 5), (Nodes{"a", "b"})) << "that breaks two";
  EXPECT_EQ(look().nodes_kept({0}, 8), Nodes{});
  take("c", "a", 2);
  EXPECT_EQ(look().nodes_kept({3}, 2), Nodes{"b"}) << "a has two that make no box";
  EXPECT_EQ(look().may_open(0, "a", 3), 2);
  EXPECT_EQ(look().may_open(0, "b", 3), 0);
  EXPECT_EQ(look().may_open(0, "b", 2), 4);
  take("d", "b", 1);
  EXPECT_EQ(look().may_open(0, "b", 3), 3) << "fewer are left than are to be kept: no more may be broken";
}

TEST_F(BoxRoomsTest, BoxesThatBorrowedWorkHoldsCountAsIntact) {
  const model::Allocation box = take("box", "a", 4);
  take("rest", "a", 4);
  take("more", "b", 4);
  EXPECT_EQ(look().nodes_kept({1}, 1), Nodes{"b"});
  EXPECT_EQ(look({{&box, false, true}}).nodes_kept({1}, 1), Nodes{}) << "it would be taken back";
  EXPECT_EQ(look({{&box, true, true}}).nodes_kept({1}, 1), Nodes{"b"}) << "it is its holder's own";
  EXPECT_EQ(look({{&box, false, false}}).nodes_kept({1}, 1), Nodes{"b"}) << "not taken as a box";
}

TEST_F(BoxRoomsTest, BoxesOfARack) {
  for (const char* node : {"a", "b", "c"}) {
    model::Node labelled = test::make_node(node);
    labelled.meta.labels["heddle.dev/rack"] = node == std::string("c") ? "r2" : "r1";
    state_.upsert_node(labelled);
  }
  state_.upsert_slice(test::make_slice("c", 8, 80000 * test::kMiB));
  meters_.front().box_devices = 8;
  meters_.front().box_level = "rack";
  EXPECT_EQ(look().nodes_kept({3}, 1), (Nodes{"a", "b", "c"}));
  EXPECT_EQ(look().nodes_kept({2}, 8), Nodes{}) << "each breaks one";
  const model::Allocation box = take("box", "b", 4);
  EXPECT_EQ(look().nodes_kept({2}, 5), (Nodes{"a", "c"})) << "b has four, and they are no part of the second box";
  EXPECT_EQ(look({{&box, false, true}}).nodes_kept({2}, 5), Nodes{}) << "it would be taken back";
  EXPECT_EQ(look().may_open(0, "a", 2), INT64_MAX) << "is no bound of one node";
  const auto budgets = look().budgets(meters_, {1});
  ASSERT_EQ(budgets.size(), 1U);
  EXPECT_EQ(budgets[0].spare, 1);
  ASSERT_NE(budgets[0].map, nullptr);
  EXPECT_EQ(budgets[0].map->text(1), "1 box of 8 devices of one rack");
}

TEST_F(BoxRoomsTest, AMeterCountsItsOwnModel) {
  meters_ = {boxes(4, "NVIDIA L4"), boxes(4, "NVIDIA H100")};
  const model::Allocation box = take("box", "a", 4);
  const BoxRooms rooms = look({{&box, false, true}});
  EXPECT_EQ(rooms.nodes_kept({1, 0}, 8), Nodes{}) << "there is none of it";
  EXPECT_EQ(rooms.nodes_kept({0, 4}, 1), (Nodes{"a", "b"}));
}

}  // namespace
}  // namespace heddle::engine
