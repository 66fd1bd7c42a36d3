#include "agent/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace heddle::agent {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kGiB = int64_t{1} << 30;

const catalog::Catalog& known() {
  static const catalog::Catalog catalog = *catalog::Catalog::built_in();
  return catalog;
}

vendors::Card npu(int64_t minor) {
  vendors::Card card;
  card.vendor = "ascend";
  card.kind = "npu";
  card.uuid = "NPU-" + std::to_string(minor);
  card.model = "910B4";
  card.minor = minor;
  card.memory_bytes = 32 * kGiB;
  card.cuts = true;
  return card;
}

vendors::Card part_of(vendors::Card card, const std::string& profile, int64_t start) {
  card.partition = {card.uuid, profile, start, start, 0};
  card.uuid += "-part-" + std::to_string(start);
  card.cuts = card.partitioned = false;
  card.memory_bytes = 8 * kGiB;
  return card;
}

vendors::Card mig_card() {
  vendors::Card card = npu(0);
  card.vendor = "nvidia";
  card.kind = "gpu";
  card.uuid = "GPU-0";
  card.model = "NVIDIA A100-SXM4-40GB";
  card.partitioned = true;
  return card;
}

ClaimRecord holder(const vendors::Card& part, const std::string& device) {
  GrantedDevice granted;
  granted.pool = "n/" + part.vendor;
  granted.device = device;
  granted.made = MadePartition{{part.partition.parent_uuid, part.partition.profile, part.partition.start}, {}};
  return {"u1", "ns", "c", {granted}, {}, {}, {}};
}

std::vector<std::string> names(const Offer& offer) {
  std::vector<std::string> out;
  for (const model::ResourceSlice& slice : offered_slices({"n", "uid"}, offer, {})) {
    for (const model::Device& device : slice.devices) out.push_back(device.name);
  }
  return out;
}

int64_t counter(const Parts& parts, const std::string& name) {
  const auto found = parts.counters.counters.find(name);
  return found == parts.counters.counters.end() ? 0 : found->second.value().value_or(-1);
}

const std::set<std::string> kBoth = {"ascend", "nvidia"};

TEST(Offer, TemplatesOfAnNpuAreDevicesThatShareItsCounters) {
  const Offer offer = offer_of(known(), kBoth, {npu(1)}, {});
  ASSERT_THAT(offer.parts, SizeIs(1));
  EXPECT_THAT(names(offer), ElementsAre("npu-1", "npu-1-vir05-1c-8g-0", "npu-1-vir05-1c-8g-1", "npu-1-vir05-1c-8g-2",
                                        "npu-1-vir05-1c-8g-3", "npu-1-vir10-3c-16g-0", "npu-1-vir10-3c-16g-1"));
  const auto slices = offered_slices({"n", "uid"}, offer, {{"NPU-1", "somebody"}});
  ASSERT_THAT(slices, SizeIs(2));
  EXPECT_EQ(slices[0].pool_slice_count, 2);
  EXPECT_EQ(slices[1].pool_slice_count, 2);
  EXPECT_EQ(slices[1].meta.name, "n-heddle-ascend-counters-0");
  ASSERT_THAT(slices[1].shared_counters, SizeIs(1));
  EXPECT_EQ(slices[1].shared_counters[0].name, "npu-1");
  EXPECT_THAT(slices[1].devices, IsEmpty());
  const model::Device& whole = slices[0].devices[0];
  EXPECT_TRUE(whole.allow_multiple_allocations);
  ASSERT_THAT(whole.consumes_counters, SizeIs(1));
  EXPECT_EQ(whole.consumes_counters[0].counters, slices[1].shared_counters[0].counters) << "all of it";
  const model::Device& part = slices[0].devices[5];
  EXPECT_EQ(std::get<std::string>(part.attributes.at("type")), "partition");
  EXPECT_EQ(std::get<std::string>(part.attributes.at("isolation")), "hard");
  EXPECT_EQ(std::get<std::string>(part.attributes.at("profile")), "vir10_3c_16g");
  EXPECT_EQ(std::get<std::string>(part.attributes.at("parentUUID")), "NPU-1");
  EXPECT_EQ(std::get<std::string>(part.attributes.at("model")), "910B4");
  EXPECT_FALSE(part.attributes.contains("uuid")) << "it has none yet";
  EXPECT_FALSE(part.attributes.contains("placement"));
  EXPECT_FALSE(part.allow_multiple_allocations);
  EXPECT_EQ(part.capacity.at("memory").value.value(), 16 * kGiB);
  EXPECT_EQ(part.taints.size(), 2U) << "whoever serves the card serves its parts";
  EXPECT_THAT(offer_of(known(), {"nvidia"}, {npu(1)}, {}).parts, IsEmpty());
  vendors::Card unknown = npu(1);
  unknown.model = "910Z";
  EXPECT_THAT(offer_of(known(), kBoth, {unknown}, {}).parts, IsEmpty());
  vendors::Card never = npu(1);
  never.cuts = false;
  EXPECT_THAT(offer_of(known(), kBoth, {never}, {}).parts, IsEmpty());
}

TEST(Offer, APartitionThatAClaimHasIsNoDeviceOfItsOwn) {
  vendors::Card card = npu(1);
  card.partitioned = true;
  const vendors::Card ours = part_of(card, "vir05_1c_8g", 123);
  const Offer offer = offer_of(known(), kBoth, {card, ours}, {holder(ours, "npu-1-vir05-1c-8g-0")});
  EXPECT_EQ(names(offer), names(offer_of(known(), kBoth, {npu(1)}, {}))) << "what is offered does not change with it";
  EXPECT_THAT(not_offered(as_offered({vendors::LibraryState::kOk, "", "", {card}}, offer)), IsEmpty());
  // No longer made here: what claims have stays until it ends, and nothing else of the card is offered.
  const Offer ending = offer_of(known(), {}, {card, ours}, {holder(ours, "npu-1-vir05-1c-8g-0")});
  EXPECT_THAT(names(ending), ElementsAre("npu-1-vir05-1c-8g-0"));
}

TEST(Offer, PartitionsOfOthersStayAndTakeWhatTheyHave) {
  vendors::Card card = npu(1);
  card.partitioned = true;
  const vendors::Card others = part_of(card, "vir10_3c_16g", 116);
  const Offer offer = offer_of(known(), kBoth, {card, others}, {});
  ASSERT_THAT(offer.parts, SizeIs(1));
  EXPECT_EQ(counter(offer.parts[0], "ai-cores"), 10);
  EXPECT_EQ(counter(offer.parts[0], "ai-cpus"), 4);
  EXPECT_EQ(counter(offer.parts[0], "memory"), 16 * kGiB);
  EXPECT_THAT(names(offer),
              AllOf(Contains("npu-1-vir10-3c-16g-116"), Contains("npu-1-vir10-3c-16g-0"), Not(Contains("npu-1"))));
  // Of a template that the catalogue does not know nobody can say what is left, nor of vNPUs that cannot be described.
  EXPECT_THAT(offer_of(known(), kBoth, {card, part_of(card, "vir10_3c_16g_nm", 116)}, {}).parts, IsEmpty());
  EXPECT_THAT(offer_of(known(), kBoth, {card}, {}).parts, IsEmpty());
}

TEST(Offer, EveryProfileAtEveryPlaceOfACardInMigMode) {
  const vendors::Card card = mig_card();
  const Offer offer = offer_of(known(), kBoth, {card}, {});
  ASSERT_THAT(offer.parts, SizeIs(1));
  EXPECT_FALSE(offer.cards[0].partitioned == false) << "the whole card is not offered in MIG mode";
  EXPECT_THAT(names(offer), AllOf(SizeIs(25), Contains("gpu-0-3g-20gb-4"), Not(Contains("gpu-0"))));
  const auto slices = offered_slices({"n", "uid"}, offer, {});
  const auto& devices = slices[0].devices;
  const auto found = std::ranges::find(devices, "gpu-0-3g-20gb-4", &model::Device::name);
  ASSERT_NE(found, devices.end());
  EXPECT_EQ(std::get<int64_t>(found->attributes.at("placement")), 4);
  vendors::Card off = card;
  off.partitioned = off.cuts = false;
  EXPECT_THAT(names(offer_of(known(), kBoth, {off}, {})), ElementsAre("gpu-0"));
}

TEST(Offer, AnInstanceOfOthersBlocksItsSlices) {
  const vendors::Card card = mig_card();
  const Offer offer = offer_of(known(), kBoth, {card, part_of(card, "3g.20gb", 4)}, {});
  const std::vector<std::string> all = names(offer);
  EXPECT_EQ(std::ranges::count(all, "gpu-0-3g-20gb-4"), 1) << "as it is, and not once more";
  EXPECT_THAT(all, AllOf(Contains("gpu-0-3g-20gb-0"), Contains("gpu-0-1g-5gb-3"), Not(Contains("gpu-0-1g-5gb-4")),
                         Not(Contains("gpu-0-7g-40gb-0"))));
  EXPECT_EQ(counter(offer.parts[0], "compute-slices"), 4);
  EXPECT_EQ(counter(offer.parts[0], "memory-slice-4"), 0);
  EXPECT_EQ(counter(offer.parts[0], "memory-slice-3"), 1);
}

}  // namespace
}  // namespace heddle::agent
