// Discovery against the simulated machine. The library keeps the first machine that it opened, so there is one.
#include "vendors/ascend/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "vendors/partition.h"

namespace heddle::vendors::ascend {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr int64_t kGiB = int64_t{1} << 30;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Machine {
 public:
  Machine() {
    std::ofstream(root_ + "/cards.yaml") << "machine: {driver: 25.5.1}\n"
                                            "cards: [{model: 910C, count: 2}, {model: 910B4}, {model: 310P}]\n";
    tool("create --config " + root_ + "/cards.yaml");
    setenv("ASCENDSIM_ROOT", root_.c_str(), 1);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  void tool(const std::string& arguments) const {
    const std::string command = setting("ASCENDSIM_TOOL") + " " + arguments + " --root " + root_ + " >/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(cert-env33-c): a test
  }

 private:
  TemporaryFolder folder_of_test_;
  std::string root_ = folder_of_test_.path();
};

TEST(AscendProbe, DescribesWhatTheDriverHasAndFollowsItsHealth) {
  const Machine machine;
  Probe probe({setting("ASCENDSIM_LIBRARIES") + "/libdcmi.so", "/", "/nowhere"});
  const Inventory found = probe.discover();
  ASSERT_EQ(found.state, LibraryState::kOk) << found.detail;
  EXPECT_THAT(found.skipped, IsEmpty());
  ASSERT_THAT(found.cards, SizeIs(4));
  const Card& first = found.cards[0];
  EXPECT_EQ(first.vendor, "ascend");
  EXPECT_EQ(first.kind, "npu");
  EXPECT_EQ(first.model, "Ascend910");
  EXPECT_EQ(first.memory_bytes, 64 * kGiB);
  EXPECT_EQ(first.super_node, "1");
  EXPECT_EQ(first.link_domain, "superpod-1");
  EXPECT_EQ(first.driver_version, "25.5.1");
  EXPECT_EQ(first.pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(first.numa_node, -1);
  EXPECT_THAT(first.uuid, MatchesRegex("[0-9A-F]{8}(-[0-9A-F]{8}){4}"));
  EXPECT_NE(first.uuid, found.cards[1].uuid);
  EXPECT_EQ(found.cards[2].model, "910B4");
  EXPECT_EQ(found.cards[2].minor, 2);
  EXPECT_EQ(first.module, "0");
  EXPECT_EQ(found.cards[1].module, "0") << "the other die of it";
  EXPECT_EQ(found.cards[2].super_node, "");
  EXPECT_EQ(found.cards[2].module, "");
  EXPECT_EQ(found.cards[3].model, "310P3");
  EXPECT_EQ(found.cards[3].memory_bytes, 21527 * (kGiB >> 10)) << "as the catalogue has it";

  machine.tool("fault --kind error --value 2149974016 --card 2");
  machine.tool("fault --kind health --value 1 --card 3");
  const StatusReport report = probe.status();
  ASSERT_THAT(report.cards, SizeIs(4));
  EXPECT_TRUE(report.cards[0].healthy);
  EXPECT_EQ(report.cards[0].power_milliwatts, 90000);
  EXPECT_FALSE(report.cards[2].healthy);
  EXPECT_EQ(report.cards[2].health_message, "major alarm 0x80260000");
  EXPECT_TRUE(report.cards[3].healthy) << "a warning is no failure";

  machine.tool("fault --kind lost --card 0");
  EXPECT_EQ(probe.status().cards[0].health_message, "the NPU is lost");
  machine.tool("fault --kind clear");
  EXPECT_TRUE(probe.status().cards[0].healthy);

  // vNPUs that an administrator made, each behind its NPU.
  machine.tool("vnpu --card 2 --template vir05_1c_8g");
  machine.tool("vnpu --card 2 --template vir10_3c_16g");
  machine.tool("vnpu --card 3 --template vir01");
  const Inventory cut = probe.discover();
  ASSERT_THAT(cut.cards, SizeIs(7));
  EXPECT_THAT(cut.skipped, IsEmpty());
  EXPECT_FALSE(cut.cards[1].partitioned);
  EXPECT_TRUE(cut.cards[2].partitioned);
  const Card& vnpu = cut.cards[4];
  EXPECT_EQ(vnpu.uuid, cut.cards[2].uuid + "-vnpu-133");
  EXPECT_EQ(vnpu.model, "910B4");
  EXPECT_EQ(vnpu.minor, 2);
  EXPECT_EQ(vnpu.memory_bytes, 16 * kGiB);
  EXPECT_FALSE(vnpu.partitioned);
  EXPECT_EQ(vnpu.partition.parent_uuid, cut.cards[2].uuid);
  EXPECT_EQ(vnpu.partition.profile, "vir10_3c_16g");
  EXPECT_EQ(vnpu.partition.start, 133);
  EXPECT_EQ(vnpu.partition.gpu_instance, 133);
  EXPECT_EQ(cut.cards[6].partition.profile, "vir01");
  EXPECT_EQ(cut.cards[6].memory_bytes, 3 * kGiB);
  machine.tool("fault --kind error --value 2149974016 --card 2");
  const StatusReport of_cut = probe.status();
  ASSERT_THAT(of_cut.cards, SizeIs(7));
  EXPECT_FALSE(of_cut.cards[4].healthy) << "what befalls an NPU befalls its vNPUs";
  EXPECT_TRUE(of_cut.cards[6].healthy);
  machine.tool("vnpu --card 3 --destroy 148");
  EXPECT_THAT(probe.discover().cards, SizeIs(6));
  machine.tool("fault --kind clear");

  // Those that are made on request: each from the top of the NPU's ids, and only what was ordered is taken away.
  const std::string npu = found.cards[3].uuid;
  EXPECT_FALSE(found.cards[0].cuts) << "an NPU of a super node";
  EXPECT_TRUE(found.cards[3].cuts);
  PartitionOrder order{npu, "vir02", -1};
  EXPECT_EQ(probe.place(order, {155}), 154) << "155 is promised to another";
  order.place = 155;
  const auto made = probe.make(order);
  ASSERT_TRUE(made) << made.error().text();
  const Card* card = find_partition(made->cards, order);
  ASSERT_NE(card, nullptr);
  EXPECT_EQ(card->uuid, npu + "-vnpu-155");
  EXPECT_EQ(card->memory_bytes, 6 * kGiB);
  EXPECT_EQ(probe.make(order)->cards.size(), made->cards.size()) << "a call that is repeated makes nothing new";
  EXPECT_EQ(probe.place(order, {}), 155) << "it stays where it is";
  EXPECT_EQ(probe.place({npu, "vir01", 155}, {}), 154) << "another one does not";
  const auto other = probe.make({npu, "vir01", 155});
  EXPECT_EQ(other.error().code, Code::kConflict);
  EXPECT_THAT(other.error().message, HasSubstr("vNPU 155"));
  EXPECT_EQ(probe.make({npu, "vir09", 154}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(probe.make({npu, "vir04", 154})->cards.size(), made->cards.size() + 1);
  const auto full = probe.make({npu, "vir04", 153});
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_THAT(full.error().message, HasSubstr("template vir04"));
  EXPECT_EQ(probe.drop({npu, "vir04", 155})->cards.size(), made->cards.size() + 1) << "of another template";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(find_partition(probe.drop(order)->cards, order), nullptr);
  ASSERT_TRUE(probe.drop({npu, "vir04", 154}));
  EXPECT_THAT(probe.discover().cards, SizeIs(6));
  EXPECT_EQ(probe.make({found.cards[0].uuid, "vir05_1c_16g", 100}).error().code, Code::kUnsupported);
  EXPECT_EQ(probe.make({"nobody", "vir02", 155}).error().code, Code::kNotFound);
}

TEST(AscendProbe, AMachineWithoutTheDriverIsNoFault) {
  Probe probe({"", "/nowhere", "/sys"});
  const Inventory found = probe.discover();
  EXPECT_EQ(found.state, LibraryState::kMissing);
  EXPECT_THAT(found.detail, HasSubstr("libdcmi.so"));
}

}  // namespace
}  // namespace heddle::vendors::ascend
