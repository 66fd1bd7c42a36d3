#include "engine/topology_table.h"

#include <gtest/gtest.h>

namespace heddle::engine {
namespace {

TopologyObject object(const std::string& name, const std::string& created, const std::string& levels) {
  return read_topology_object(R"({"metadata":{"name":")" + name + R"(","creationTimestamp":")" + created +
                              R"("},"spec":{"levels":[)" + levels + "]}}")
      .value();
}

std::vector<std::string> names(const TopologyTable& table) {
  std::vector<std::string> out;
  for (const TopologyLevel& level : table.levels()) out.push_back(level.name);
  return out;
}

constexpr const char* kRow = R"({"name":"row","nodeLabel":"example.com/row"})";
constexpr const char* kHall = R"({"name":"hall","deviceAttribute":"accelerator.heddle.dev/hall"})";

TEST(TopologyTable, WithoutAnObjectTheDefaultLevelsHold) {
  TopologyTable table;
  EXPECT_EQ(names(table), (std::vector<std::string>{"linkDomain", "rack", "superNode", "zone", "region"}));
  EXPECT_EQ(table.in_force(), nullptr);
}

TEST(TopologyTable, OneObjectNamesAllLevels) {
  TopologyTable table;
  EXPECT_TRUE(table.upsert(object("a", "2026-01-01T00:00:00Z", std::string(kRow) + "," + kHall)));
  ASSERT_EQ(names(table), (std::vector<std::string>{"row", "hall"}));
  EXPECT_EQ(table.levels()[0].labels, std::vector<std::string>{"example.com/row"});
  EXPECT_TRUE(table.levels()[0].attributes.empty());
  EXPECT_EQ(table.levels()[1].attributes, std::vector<std::string>{"accelerator.heddle.dev/hall"});
  EXPECT_FALSE(table.upsert(object("a", "2026-01-01T00:00:00Z", std::string(kRow) + "," + kHall)));
  EXPECT_EQ(table.standings().at("a"), (TopologyTable::Standing{true, "InForce", ""}));
}

TEST(TopologyTable, TheOldestIsInForceAndTheOthersSayWhyTheyAreNot) {
  TopologyTable table;
  table.upsert(object("b", "2026-01-02T00:00:00Z", kRow));
  EXPECT_FALSE(table.upsert(object("a", "2026-01-03T00:00:00Z", kHall)));
  EXPECT_EQ(table.in_force()->meta.name, "b");
  EXPECT_EQ(table.standings().at("a").reason, "NotInForce");
  EXPECT_EQ(table.standings().at("a").message, "b is in force, the oldest one; delete it to have this one instead");
  EXPECT_TRUE(table.upsert(object("d", "2026-01-01T00:00:00Z", kHall)));
  EXPECT_FALSE(table.upsert(object("c", "2026-01-01T00:00:00Z", kHall)));  // of equal age the first by name
  EXPECT_EQ(table.in_force()->meta.name, "c");
  table.remove("c");
  table.remove("d");
  EXPECT_EQ(names(table), std::vector<std::string>{"row"});
  EXPECT_TRUE(table.remove("b"));
  EXPECT_EQ(names(table), std::vector<std::string>{"hall"});
  EXPECT_FALSE(table.remove("b"));
}

TEST(TopologyTable, OneThatCannotBeReadIsNotInForceAndSaysWhy) {
  TopologyTable table;
  table.upsert(object("b", "2026-01-02T00:00:00Z", kRow));
  table.upsert(object("a", "2026-01-01T00:00:00Z", R"({"name":"x"})"));
  EXPECT_EQ(table.in_force()->meta.name, "b");
  EXPECT_EQ(table.standings().at("a").reason, "Invalid");
  EXPECT_EQ(table.standings().at("a").message, "spec.levels[0]: must have either nodeLabel or deviceAttribute");
  EXPECT_FALSE(read_topology_object("[]").has_value());
}

TEST(TopologyTable, WhatIsNarrowerThanTheNodeHasNoPartInPlacement) {
  TopologyTable table;
  table.upsert(object("a", "2026-01-01T00:00:00Z",
                      R"({"name":"link","deviceAttribute":"accelerator.heddle.dev/link"},)"
                      R"({"name":"node","nodeLabel":"kubernetes.io/hostname"},)" +
                          std::string(kRow)));
  EXPECT_EQ(names(table), std::vector<std::string>{"row"});
  EXPECT_EQ(table.standings().at("a").message, "narrower than a node, and without a part in placement: link");
}

}  // namespace
}  // namespace heddle::engine
