#include "tool/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace nvsim {
namespace {

LoadedConfig load_text(const std::string& text) {
  const std::string path = ::testing::TempDir() + "nvsim_config_test_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << text;
  LoadedConfig loaded = load_config(path, "test");
  std::filesystem::remove(path);
  return loaded;
}

TEST(ConfigTest, EveryReadyMadeModelLoads) {
  for (const char* name : {"H100", "H200", "A100-80", "L4", "T4"}) {
    const LoadedConfig loaded = load_text(std::string("cards: [{model: ") + name + "}]");
    EXPECT_EQ(loaded.error, "") << name;
    ASSERT_EQ(loaded.config.cards.size(), 1U);
    EXPECT_GT(loaded.config.cards[0].memory_bytes, 10ULL << 30U) << name;
    EXPECT_EQ(loaded.config.cards[0].mig_profile_count > 0, loaded.config.cards[0].mig != 0) << name;
  }
}

TEST(ConfigTest, CardsOfOneEntryDifferInWhatIdentifiesThem) {
  const LoadedConfig loaded = load_text("cards: [{model: T4, count: 2, numa: 1, memory: 8Gi}, {model: L4}]");
  ASSERT_EQ(loaded.error, "");
  const auto& cards = loaded.config.cards;
  ASSERT_EQ(cards.size(), 3U);
  EXPECT_STRNE(cards[0].uuid, cards[1].uuid);
  EXPECT_NE(cards[0].bus, cards[1].bus);
  EXPECT_EQ(cards[1].minor, 1U);
  EXPECT_EQ(cards[1].memory_bytes, 8ULL << 30U);
  EXPECT_EQ(cards[2].numa_node, -1);
}

TEST(ConfigTest, TopologyFollowsFromThePlaces) {
  const LoadedConfig loaded = load_text(
      "cards:\n"
      "- {model: L4, numa: 0, pcie-root: 0, pcie-switch: 0}\n"
      "- {model: L4, numa: 0, pcie-root: 0, pcie-switch: 0}\n"
      "- {model: L4, numa: 0, pcie-root: 0, pcie-switch: 1}\n"
      "- {model: L4, numa: 0, pcie-root: 1}\n"
      "- {model: L4, numa: 1, pcie-root: 2}\n"
      "links: [[0, 4, 2]]\n");
  ASSERT_EQ(loaded.error, "");
  const auto& row = loaded.config.machine.topology[0];
  EXPECT_THAT(std::vector<int>(row, row + 5), ::testing::ElementsAre(0, 10, 30, 40, 50));
  EXPECT_EQ(loaded.config.machine.links[4][0], 2);
}

TEST(ConfigTest, CardsOnSwitchesAreRegisteredWithAFabric) {
  const LoadedConfig loaded = load_text(
      "cards: [{model: H100}, {model: B200, fabric-cluster: 6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2eff, fabric-clique: 7},\n"
      "        {model: A100-80}, {model: L4}]");
  ASSERT_EQ(loaded.error, "");
  const auto& cards = loaded.config.cards;
  EXPECT_EQ(cards[0].fabric_state, 3U);
  EXPECT_EQ(cards[0].fabric_cluster[0], 0);
  EXPECT_EQ(cards[1].fabric_cluster[0], 0x6c);
  EXPECT_EQ(cards[1].fabric_cluster[15], 0xff);
  EXPECT_EQ(cards[1].fabric_clique, 7U);
  EXPECT_EQ(cards[2].fabric_state, 0U) << "Ampere is before fabrics";
  EXPECT_EQ(cards[3].fabric_state, 0U) << "without a switch";
}

struct BadCase {
  const char* text;
  const char* field;
  const char* fix;
};

TEST(ConfigTest, BadInputNamesTheFieldAndTheFix) {
  const BadCase cases[] = {
      {"cards: []", "cards", "write cards:"},
      {"{}", "cards", "write cards:"},
      {"cards: [{model: H900}]", "cards[0].model", "H100"},
      {"cards: [{model: H100}, {model: H100, memory: lots}]", "cards[1].memory", "300Mi"},
      {"cards: [{model: H100, memory: -1Gi}]", "cards[0].memory", "write it like"},
      {"cards: [{model: H100, memory: 99999999Ti}]", "cards[0].memory", "write it like"},
      {"cards: [{model: H100, memory: 100Mi}]", "cards[0].memory", "81559Mi"},
      {"cards: [{model: H100, sms: 0}]", "cards[0].sms", "1 to 4096"},
      {"cards: [{model: H100, slice: 2}]", "cards[0].slice", "2ms"},
      {"cards: [{model: H100, slice: 1ns}]", "cards[0].slice", "10us"},
      {"cards: [{model: H100, memroy: 1Gi}]", "cards[0].memroy", "the fields are"},
      {"cards: [{model: H100, count: 99}]", "cards[0].count", "1 to 32"},
      {"cards: [{model: H100, count: 2, uuid: GPU-1}]", "cards[0].uuid", "one by one"},
      {"cards: [{model: H100, pci: here}]", "cards[0].pci", "0000:18:00.0"},
      {"cards: [{model: H100, mig: maybe}]", "cards[0].mig", "true or false"},
      {"cards: [{model: H100, minor: 1}, {model: H100, minor: 1}]", "cards[1].minor", "its own"},
      {"cards: [{model: H100, fabric-cluster: rack}]", "cards[0].fabric-cluster", "write it like"},
      {"cards: [{model: H100, fabric-state: done}]", "cards[0].fabric-state", "in-progress or completed"},
      {"cards: [{model: A100-80, fabric-cluster: 6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2e3f}]", "cards[0].fabric-cluster",
       "from Hopper on"},
      {"cards: [{model: L4, fabric-state: completed}]", "cards[0].fabric-state", "leave it out"},
      {"machine: {cuda: new}\ncards: [{model: H100}]", "machine.cuda", "12.9"},
      {"cards: [{model: H100}]\nlinks: [[0, 1, 4]]", "links[0]", "two cards"},
      {"cards: [{model: H100", "line", ""},
  };
  for (const BadCase& bad : cases) {
    const LoadedConfig loaded = load_text(bad.text);
    EXPECT_THAT(loaded.error, ::testing::HasSubstr(bad.field)) << bad.text;
    EXPECT_THAT(loaded.error, ::testing::HasSubstr(bad.fix)) << bad.text;
  }
}

}  // namespace
}  // namespace nvsim
