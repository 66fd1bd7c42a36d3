// Discovery through NVML libraries that are not ours and follow no habit of ours: testing/foreign_nvml.c. A card that
// can be described is; each that cannot is named with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>

#include "vendors/wire.h"
#include "vendors/worker.h"

namespace heddle::vendors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ForeignNvml : public testing::Test {
 protected:
  static std::string test_dir() {
    const char* dir = std::getenv("HEDDLE_TEST_DIR");
    return dir != nullptr ? dir : "build/release/test";
  }
  void open(const std::string& kind) {
    const WorkerOptions options{{test_dir() + "/vendor_worker_for_test", test_dir() + "/foreign_" + kind + "_nvml.so"},
                                Duration::millis(1),
                                Duration::millis(5)};
    worker_ = std::make_unique<Worker>(options, clock_);
  }
  Inventory cards() {
    const auto answer = worker_->call("cards", Duration::seconds(20));
    EXPECT_TRUE(answer) << answer.error().text();
    return parse_inventory(answer.value_or("")).value_or(Inventory{});
  }
  StatusReport status() {
    const auto answer = worker_->call("status", Duration::seconds(20));
    EXPECT_TRUE(answer) << answer.error().text();
    return parse_status(answer.value_or("")).value_or(StatusReport{});
  }

  SystemClock clock_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(ForeignNvml, ADriverOfLongAgoIsEnough) {
  open("old");
  const Inventory inventory = cards();
  EXPECT_EQ(inventory.state, LibraryState::kOk) << inventory.detail;
  EXPECT_THAT(inventory.skipped, ElementsAre());
  ASSERT_EQ(inventory.cards.size(), 2U);
  const Card& card = inventory.cards[1];
  EXPECT_EQ(card.uuid, "GPU-8a6d5f1c-0000-4b1d-9d5e-000000000001");
  EXPECT_EQ(card.minor, 1);
  EXPECT_EQ(card.memory_bytes, (int64_t{3} << 40) + 4095);
  EXPECT_EQ(card.pci_bus_id, "0000:85:00.0") << "the short struct has the short form only";
  EXPECT_EQ(card.driver_version, "384.81");
  EXPECT_EQ(card.runtime_version, "");
  EXPECT_EQ(card.architecture, "");
  EXPECT_TRUE(card.healthy);
  EXPECT_FALSE(card.partitioned);

  const StatusReport report = status();
  ASSERT_EQ(report.cards.size(), 2U);
  ASSERT_EQ(report.cards[0].processes.size(), 70U) << "the struct of 16 bytes, and a second call for the size";
  EXPECT_EQ(report.cards[0].processes[69].pid, 5000069);
  EXPECT_EQ(report.cards[0].processes[69].memory_bytes, int64_t{70} << 20);
  EXPECT_EQ(report.cards[0].power_milliwatts, -1);
  EXPECT_TRUE(report.cards[0].healthy);
}

TEST_F(ForeignNvml, WhatCanBeDescribedIsAndTheRestIsNamed) {
  open("sparse");
  const Inventory inventory = cards();
  EXPECT_EQ(inventory.state, LibraryState::kOk) << inventory.detail;
  std::vector<int64_t> minors;
  for (const Card& card : inventory.cards) minors.push_back(card.minor);
  EXPECT_THAT(minors, ElementsAre(0, 5, 6, 0));
  EXPECT_THAT(inventory.skipped,
              ElementsAre("card 1: nvmlDeviceGetHandleByIndex: Insufficient Permissions (4)", "card 2: no uuid",
                          "card 3: GPU-8a6d5f1c-0000-4b1d-9d5e-000000000003 has no minor number",
                          "card 4: GPU-8a6d5f1c-0000-4b1d-9d5e-000000000004 has no memory size"));
  const Card& first = inventory.cards[0];
  EXPECT_EQ(first.pci_bus_id, "10001:3b:00.0") << "a domain of more than 16 bits";
  EXPECT_THAT(first.model, HasSubstr("GPU \xe2\x84\xa2 of the next year"));
  EXPECT_EQ(first.architecture, "");
  EXPECT_EQ(first.numa_node, -1);
  EXPECT_EQ(first.runtime_version, "") << "a number beside an error is no number";
  EXPECT_EQ(inventory.cards[1].memory_bytes, (int64_t{24} << 30) - 1) << "only the second form of the call works";
  EXPECT_EQ(inventory.cards[1].pci_bus_id, "");
  EXPECT_TRUE(inventory.cards[2].partitioned);

  const StatusReport report = status();
  EXPECT_EQ(report.state, LibraryState::kOk);
  for (const CardStatus& card : report.cards) {
    EXPECT_TRUE(card.healthy) << card.uuid << ": " << card.health_message;
    EXPECT_TRUE(card.processes.empty());
    EXPECT_EQ(card.utilization_percent, -1);
  }
}

TEST_F(ForeignNvml, ADriverWithoutCardsIsNoFault) {
  open("empty");
  const Inventory inventory = cards();
  EXPECT_EQ(inventory.state, LibraryState::kOk) << inventory.detail;
  EXPECT_TRUE(inventory.cards.empty());
  EXPECT_TRUE(inventory.skipped.empty());
  EXPECT_EQ(status().state, LibraryState::kOk);
}

}  // namespace
}  // namespace heddle::vendors
