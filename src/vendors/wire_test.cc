#include "vendors/wire.h"

#include <gtest/gtest.h>

namespace heddle::vendors {
namespace {

TEST(Wire, KeepsEveryFieldOfACard) {
  Inventory in{LibraryState::kOk, "", "/usr/lib/x.so", {}};
  Card card;
  card.vendor = "nvidia";
  card.kind = "gpu";
  card.uuid = "GPU-1";
  card.model = "H200";
  card.architecture = "Hopper";
  card.index = 3;
  card.minor = 4;
  card.memory_bytes = int64_t{150} << 30;
  card.pci_bus_id = "0000:3b:00.0";
  card.pcie_root = "pci0000:3a";
  card.numa_node = 1;
  card.driver_version = "570.1";
  card.runtime_version = "12.8";
  card.link_domain = "d";
  card.partitioned = true;
  card.healthy = false;
  card.health_message = "XID 79";
  in.cards.push_back(card);
  in.skipped = {"card 1: no memory size"};
  const auto out = parse_inventory(inventory_json(in));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(inventory_json(*out), inventory_json(in));
  EXPECT_EQ(out->cards[0].memory_bytes, card.memory_bytes);
  EXPECT_EQ(out->cards[0].health_message, "XID 79");
  EXPECT_EQ(out->skipped, in.skipped);
}

TEST(Wire, ANameThatIsNotUtf8DoesNotThrow) {
  Inventory in{LibraryState::kOk, "", "", {}};
  in.cards.emplace_back().model = "bad\xff\xfe";
  EXPECT_TRUE(parse_inventory(inventory_json(in)));
}

TEST(Wire, KeepsTimes) {
  const TimesReport in = {{"GPU-1", {{7, 200000000}, {8, 1}}}, {"GPU-2", {}}};
  const auto out = parse_times(times_json(in));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(times_json(*out), times_json(in));
  ASSERT_EQ(out->size(), 2u);
  EXPECT_EQ(out->at(0).processes.at(0).busy_ns, 200000000);
}

TEST(Wire, RefusesOtherText) {
  for (const char* text : {"", "{}", "[]", "{\"state\":\"x\"}", "{\"state\":0,\"detail\":1}"}) {
    EXPECT_FALSE(parse_inventory(text)) << text;
    EXPECT_FALSE(parse_status(text)) << text;
    EXPECT_FALSE(parse_times(text)) << text;
  }
}

}  // namespace
}  // namespace heddle::vendors
