#include "agent/slices.h"

#include <gtest/gtest.h>

#include "agent/names.h"

namespace heddle::agent {
namespace {

vendors::Card card(int64_t minor_number) {
  vendors::Card result;
  result.vendor = "nvidia";
  result.kind = "gpu";
  result.uuid = "GPU-" + std::to_string(minor_number);
  result.model = "NVIDIA H200";
  result.index = minor_number;
  result.minor = minor_number;
  result.memory_bytes = (int64_t{8} << 30) + 12345;
  result.pci_bus_id = "0000:3b:00.0";
  result.driver_version = "570.86.15";
  result.runtime_version = "12.8";
  return result;
}

std::vector<vendors::Card> cards(int64_t count) {
  std::vector<vendors::Card> result;
  result.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) result.push_back(card(i));
  return result;
}

const NodeIdentity kNode{"node-1", "uid-1"};

// What the API server would hold after the plan.
std::vector<model::ResourceSlice> apply(const SlicePlan& plan, std::vector<model::ResourceSlice> current) {
  for (const std::string& name : plan.remove) {
    std::erase_if(current, [&](const auto& slice) { return slice.meta.name == name; });
  }
  for (const auto& slice : plan.update) {
    for (auto& entry : current) {
      if (entry.meta.name == slice.meta.name) entry = slice;
    }
  }
  for (const auto& slice : plan.create) current.push_back(slice);
  int version = 1;
  for (auto& slice : current) {
    slice.meta.resource_version = std::to_string(version++);
    for (auto& device : slice.devices) {
      for (auto& taint : device.taints) taint.added = Time{1'000'000'000};
    }
  }
  return current;
}

TEST(MakeDevice, SaysWhatTheContractPromises) {
  const model::Device device = make_device(card(3), std::nullopt);
  EXPECT_EQ(device.name, "gpu-3");
  EXPECT_TRUE(device.allow_multiple_allocations);
  const model::Capacity& memory = device.capacity.at("memory");
  EXPECT_EQ(memory.value.to_string(), "8Gi") << "rounded down to whole MiB";
  EXPECT_EQ(memory.policy->default_value->to_string(), "8Gi");
  EXPECT_EQ(memory.policy->valid_range->min.to_string(), "1Mi");
  EXPECT_EQ(memory.policy->valid_range->step->to_string(), "1Mi");
  EXPECT_EQ(memory.policy->valid_range->max->to_string(), "8Gi");
  EXPECT_EQ(device.capacity.at("cores").policy->valid_range->min.to_string(), "0");
  EXPECT_EQ(std::get<model::Version>(device.attributes.at("driverVersion")).text, "570.86.15");
  EXPECT_EQ(std::get<model::Version>(device.attributes.at("runtimeVersion")).text, "12.8.0");
  EXPECT_FALSE(device.attributes.contains("resource.kubernetes.io/numaNode")) << "unknown is absent, never -1";
  ASSERT_EQ(device.taints.size(), 1U);
  EXPECT_EQ(device.taints[0].key, kTaintManaged);
  EXPECT_EQ(device.taints[0].effect, "NoSchedule");
}

TEST(MakeDevice, AVersionThatIsNotSemanticStaysText) {
  vendors::Card old = card(0);
  old.driver_version = "550.54.09";
  EXPECT_EQ(std::get<std::string>(make_device(old, std::nullopt).attributes.at("driverVersion")), "550.54.09");
}

TEST(MakeDevice, ALongNameIsCutBetweenCharacters) {
  vendors::Card named = card(0);
  named.model = std::string(63, 'x') + "\xc3\xa9";  // its last character would cross the limit of 64 bytes
  EXPECT_EQ(std::get<std::string>(make_device(named, std::nullopt).attributes.at("model")), std::string(63, 'x'));
  named.model = std::string(62, 'x') + "\xc3\xa9y";
  EXPECT_EQ(std::get<std::string>(make_device(named, std::nullopt).attributes.at("model")),
            std::string(62, 'x') + "\xc3\xa9");
}

TEST(NotOffered, NamesEachCardAndWhy) {
  vendors::Inventory inventory{vendors::LibraryState::kOk, "", "", cards(5), {"card 9: no uuid"}};
  inventory.cards[1].partitioned = true;
  inventory.cards[2].memory_bytes = 1 << 20;
  inventory.cards[3].minor = 0;
  const std::vector<std::string> lines = not_offered(inventory);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "card 9: no uuid");
  EXPECT_NE(lines[1].find("card 1: GPU-1: its partitions (MIG) are on"), std::string::npos) << lines[1];
  EXPECT_EQ(lines[2], "card 2: GPU-2: 1048576 bytes of memory cannot be shared");
  EXPECT_EQ(lines[3], "card 3: GPU-3: another card has its minor number");
  const auto slices = desired_slices(kNode, inventory.cards, {});
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(slices[0].devices.size(), 2U);
}

TEST(MakeDevice, TaintsOfForeignAndUnhealthyCards) {
  vendors::Card sick = card(0);
  sick.healthy = false;
  sick.health_message = "XID 79: fallen off the bus!";
  const model::Device device = make_device(sick, "gpu.nvidia.com");
  ASSERT_EQ(device.taints.size(), 3U);
  EXPECT_EQ(device.taints[1].key, kTaintForeign);
  EXPECT_EQ(device.taints[1].value, "gpu.nvidia.com");
  EXPECT_EQ(device.taints[2].key, kTaintUnhealthy);
  EXPECT_EQ(device.taints[2].value, "XID-79--fallen-off-the-bus") << "a label value";
}

TEST(DesiredSlices, SplitsAtSixtyFourAndAgreesOnTheNumber) {
  const auto slices = desired_slices(kNode, cards(65), {});
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0].devices.size(), 64U);
  EXPECT_EQ(slices[1].meta.name, "node-1-heddle-nvidia-1");
  EXPECT_EQ(slices[1].pool, "node-1/nvidia");
  EXPECT_EQ(slices[0].pool_slice_count, 2);
  EXPECT_EQ(slices[1].pool_slice_count, 2);
  EXPECT_EQ(slices[0].meta.owners[0].uid, "uid-1");
}

TEST(DesiredSlices, LeavesOutWhatCannotBeShared) {
  auto list = cards(3);
  list[0].partitioned = true;
  list[1].memory_bytes = 1000;
  list.push_back(card(2));  // a second card with the same name
  const auto slices = desired_slices(kNode, list, {});
  ASSERT_EQ(slices.size(), 1U);
  ASSERT_EQ(slices[0].devices.size(), 1U);
  EXPECT_EQ(slices[0].devices[0].name, "gpu-2");
  EXPECT_TRUE(desired_slices(kNode, {}, {}).empty());
}

TEST(DesiredSlices, OffersThePartitionsThatExistInPlaceOfTheirCard) {
  std::vector<vendors::Card> list = cards(2);
  list[0].partitioned = true;
  vendors::Card part = list[0];
  part.partitioned = false;
  part.uuid = "MIG-1";
  part.memory_bytes = int64_t{9984} << 20;
  part.partition = {list[0].uuid, "1g.10gb+me", 3, 10, 0};
  vendors::Card plain = part;
  plain.uuid = "MIG-2";
  plain.partition.profile = "1g.10gb-me";
  list.push_back(part);
  list.push_back(plain);
  const auto slices = desired_slices(kNode, list, {});
  ASSERT_EQ(slices.size(), 1U);
  ASSERT_EQ(slices[0].devices.size(), 3U) << "without the card that is cut";
  const model::Device& device = slices[0].devices[1];
  EXPECT_EQ(device.name, "gpu-0-1g-10gb-plus-me-3");
  EXPECT_EQ(slices[0].devices[2].name, "gpu-0-1g-10gb-me-3");
  const auto text = [&](const char* name) { return std::get<std::string>(device.attributes.at(name)); };
  EXPECT_EQ(text("type"), "partition");
  EXPECT_EQ(text("isolation"), "hard");
  EXPECT_EQ(text("profile"), "1g.10gb+me");
  EXPECT_EQ(text("uuid"), "MIG-1");
  EXPECT_EQ(text("parentUUID"), list[0].uuid);
  EXPECT_EQ(std::get<int64_t>(device.attributes.at("placement")), 3);
  EXPECT_EQ(device.capacity.size(), 1U) << "memory only";
  EXPECT_FALSE(device.capacity.at("memory").policy) << "nothing of it is shared";
  EXPECT_FALSE(device.allow_multiple_allocations);
  // One owner: a plugin that serves partitions has them all.
  const auto owners = foreign_owners(list, {}, {{"nvidia.com/mig-1g.10gb", Quantity::from_int(1)}});
  EXPECT_EQ(owners.at("MIG-1"), "device-plugin-nvidia.com/mig-1g.10gb");
  EXPECT_FALSE(owners.contains(list[1].uuid));
}

TEST(DesiredSlices, OffersTheVnpusThatExistInPlaceOfTheirNpu) {
  vendors::Card npu = card(2);
  npu.vendor = "ascend";
  npu.kind = "npu";
  npu.partitioned = true;
  vendors::Card vnpu = npu;
  vnpu.partitioned = false;
  vnpu.uuid = npu.uuid + "-vnpu-101";
  vnpu.memory_bytes = int64_t{8} << 30;
  vnpu.partition = {npu.uuid, "vir05_1c_8g", 101, 101, 0};
  const auto slices = desired_slices(kNode, {npu, vnpu}, {});
  ASSERT_EQ(slices.size(), 1U);
  ASSERT_EQ(slices[0].devices.size(), 1U);
  const model::Device& device = slices[0].devices[0];
  EXPECT_EQ(device.name, "npu-2-vir05-1c-8g-101");
  EXPECT_EQ(std::get<std::string>(device.attributes.at("profile")), "vir05_1c_8g");
  EXPECT_EQ(std::get<std::string>(device.attributes.at("type")), "partition");
  EXPECT_EQ(device.capacity.at("memory").value, Quantity::bytes(int64_t{8} << 30));
  EXPECT_FALSE(device.allow_multiple_allocations);
  const auto lines = not_offered({vendors::LibraryState::kOk, "", "", {npu, vnpu}});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("npu-smi set -t destroy-vnpu"), std::string::npos) << lines[0];
}

TEST(PlanSlices, WritesOnceAndThenNothing) {
  const auto desired = desired_slices(kNode, cards(2), {});
  const SlicePlan first = plan_slices(desired, {}, 0);
  EXPECT_EQ(first.generation, 1);
  ASSERT_EQ(first.create.size(), 1U);
  EXPECT_EQ(first.create[0].generation, 1);
  const SlicePlan second = plan_slices(desired, apply(first, {}), first.generation);
  EXPECT_TRUE(second.empty()) << "the times that the API server adds to taints are no difference";
}

TEST(PlanSlices, AHealthChangeTouchesOneSliceAndKeepsTheGeneration) {
  auto list = cards(65);
  const SlicePlan first = plan_slices(desired_slices(kNode, list, {}), {}, 0);
  const auto current = apply(first, {});
  list[64].healthy = false;
  const SlicePlan plan = plan_slices(desired_slices(kNode, list, {}), current, first.generation);
  EXPECT_TRUE(plan.create.empty());
  EXPECT_TRUE(plan.remove.empty());
  ASSERT_EQ(plan.update.size(), 1U);
  EXPECT_EQ(plan.update[0].meta.name, "node-1-heddle-nvidia-1");
  EXPECT_EQ(plan.update[0].generation, 1);
  EXPECT_EQ(plan.update[0].meta.resource_version, "2");
  ASSERT_EQ(plan.update[0].devices[0].taints.size(), 2U);
  EXPECT_TRUE(plan.update[0].devices[0].taints[0].added.has_value()) << "a taint that stays keeps its time";
  EXPECT_FALSE(plan.update[0].devices[0].taints[1].added.has_value());
}

TEST(PlanSlices, AWipeByTheKubeletIsMadeGoodInTheSameGeneration) {
  const auto desired = desired_slices(kNode, cards(65), {});
  auto current = apply(plan_slices(desired, {}, 6), {});
  const SlicePlan all_gone = plan_slices(desired, {}, 6);
  EXPECT_EQ(all_gone.create.size(), 2U);
  EXPECT_EQ(all_gone.generation, 6);
  current.pop_back();
  const SlicePlan one_gone = plan_slices(desired, current, 6);
  EXPECT_EQ(one_gone.create.size(), 1U);
  EXPECT_TRUE(one_gone.update.empty());
}

TEST(PlanSlices, ANewSetIsANewGenerationOfAllSlices) {
  const auto before = apply(plan_slices(desired_slices(kNode, cards(64), {}), {}, 0), {});
  const SlicePlan grown = plan_slices(desired_slices(kNode, cards(65), {}), before, 0);
  EXPECT_EQ(grown.generation, 2);
  ASSERT_EQ(grown.update.size(), 1U);
  EXPECT_EQ(grown.update[0].pool_slice_count, 2);
  EXPECT_EQ(grown.create.size(), 1U);
  const auto after = apply(grown, before);
  const SlicePlan shrunk = plan_slices(desired_slices(kNode, cards(3), {}), after, 2);
  EXPECT_EQ(shrunk.generation, 3);
  EXPECT_EQ(shrunk.remove, std::vector<std::string>{"node-1-heddle-nvidia-1"});
}

TEST(PlanSlices, RemovesStraysOfThisDriver) {
  auto desired = desired_slices(kNode, cards(1), {});
  auto current = apply(plan_slices(desired, {}, 0), {});
  model::ResourceSlice stray = current[0];
  stray.meta.name = "left-over";
  current.push_back(stray);
  const SlicePlan plan = plan_slices(desired, current, 0);
  EXPECT_EQ(plan.remove, std::vector<std::string>{"left-over"});
  EXPECT_EQ(plan.update.size(), 1U) << "the set changed";
}

TEST(ForeignOwners, ByUuidByPciAddressAndByDevicePlugin) {
  auto list = cards(3);
  list[0].pci_bus_id = "0000:01:00.0";
  list[1].pci_bus_id = "0000:02:00.0";
  list[2].pci_bus_id = "0000:03:00.0";
  model::ResourceSlice other;
  other.driver = "gpu.nvidia.com";
  other.devices.resize(2);
  other.devices[0].attributes["uuid"] = std::string("GPU-0");
  other.devices[1].attributes["resource.kubernetes.io/pciBusID"] = std::string("0000:02:00.0");
  model::ResourceSlice own = other;
  own.driver = kDriver;
  own.devices[0].attributes["uuid"] = std::string("GPU-2");
  const auto owners = foreign_owners(list, {other, own}, {});
  EXPECT_EQ(owners, (std::map<std::string, std::string>{{"GPU-0", "gpu.nvidia.com"}, {"GPU-1", "gpu.nvidia.com"}}));
  EXPECT_TRUE(foreign_owners(list, {}, {{"nvidia.com/gpu", Quantity::from_int(0)}}).empty());
  EXPECT_EQ(foreign_owners(list, {}, {{"nvidia.com/gpu", Quantity::from_int(3)}}).size(), 3U);
}

TEST(OfferedCards, AreThoseOfOurOwnSlicesThatNobodyElseOwns) {
  std::vector<model::ResourceSlice> slices = desired_slices(kNode, cards(3), {{"GPU-1", "in-use-by-others"}});
  ASSERT_EQ(slices.size(), 1U);
  model::ResourceSlice other;
  other.driver = "gpu.nvidia.com";
  other.devices.resize(1);
  other.devices[0].attributes["uuid"] = std::string("GPU-9");
  slices.push_back(other);
  EXPECT_EQ(offered_cards(slices), (std::set<std::string>{"GPU-0", "GPU-2"}));
  EXPECT_TRUE(offered_cards({}).empty());
}

TEST(Slices, EachVendorHasItsOwnPool) {
  std::vector<vendors::Card> list = cards(65);
  for (int64_t i = 0; i < 2; ++i) {
    vendors::Card npu = card(i);
    npu.vendor = "ascend";
    npu.kind = "npu";
    npu.uuid = "NPU" + std::to_string(i);
    npu.super_node = "7";
    npu.module = "0";
    list.push_back(npu);
  }
  const auto slices = desired_slices(kNode, list, {});
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[1].meta.name, "node-1-heddle-nvidia-1");
  EXPECT_EQ(slices[1].pool_slice_count, 2);
  EXPECT_EQ(slices[2].meta.name, "node-1-heddle-ascend-0");
  EXPECT_EQ(slices[2].pool, "node-1/ascend");
  EXPECT_EQ(slices[2].pool_slice_count, 1);
  ASSERT_EQ(slices[2].devices.size(), 2U);
  EXPECT_EQ(slices[2].devices[0].name, "npu-0");
  EXPECT_EQ(std::get<std::string>(slices[2].devices[0].attributes.at("kind")), "npu");
  EXPECT_EQ(std::get<std::string>(slices[2].devices[0].attributes.at("superNode")), "7");
  EXPECT_EQ(std::get<std::string>(slices[2].devices[0].attributes.at("module")), "0");
  EXPECT_FALSE(slices[1].devices[0].attributes.contains("module"));
}

TEST(Slices, ADevicePluginOfTheVendorOwnsItsCards) {
  vendors::Card npu = card(0);
  npu.vendor = "ascend";
  const auto quantity = [](int64_t value) { return Quantity::from_int(value); };
  EXPECT_TRUE(
      foreign_owners({npu}, {}, {{"nvidia.com/gpu", quantity(8)}, {"huawei.com/Ascend910", quantity(0)}}).empty());
  const auto owners = foreign_owners({npu, card(1)}, {}, {{"huawei.com/Ascend910", quantity(8)}});
  EXPECT_EQ(owners, (std::map<std::string, std::string>{{"GPU-0", "device-plugin-huawei.com/Ascend910"}}));
}

}  // namespace
}  // namespace heddle::agent
