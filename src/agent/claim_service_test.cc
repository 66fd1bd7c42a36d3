#include "agent/claim_service.h"

#include <gtest/gtest.h>

namespace heddle::agent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

NodeCards node() {
  NodeCards result{"n1", {}, {}};
  for (int64_t i = 0; i < 3; ++i) {
    vendors::Card card;
    card.vendor = "nvidia";
    card.uuid = "GPU-" + std::to_string(i);
    card.minor = i;
    card.memory_bytes = 8192 * kMiB + 5;
    result.cards.push_back(card);
  }
  result.cards[1].healthy = false;
  result.foreign["GPU-2"] = "gpu.nvidia.com";
  return result;
}

model::DeviceResult result(const std::string& request, const std::string& device) {
  model::DeviceResult entry;
  entry.request = request;
  entry.driver = "accelerator.heddle.dev";
  entry.pool = "n1/nvidia";
  entry.device = device;
  entry.share_id = "s";
  entry.consumed_capacity["memory"] = Quantity::bytes(3000 * kMiB);
  entry.consumed_capacity["cores"] = Quantity::from_int(30);
  return entry;
}

model::ResourceClaim claim(std::vector<model::DeviceResult> results) {
  model::ResourceClaim object;
  object.meta.name_space = "ns";
  object.meta.name = "c";
  object.meta.uid = "uid";
  object.allocation = model::Allocation{std::move(results), {}, {}, {}};
  object.reserved_for.push_back({"", "pods", "p", "pod-uid"});
  return object;
}

TEST(GrantOf, ThePriorityIsThatOfTheClaimsShareConfig) {
  const auto config = [](std::vector<std::string> requests, const std::string& fields) {
    return model::OpaqueConfig{std::move(requests), "accelerator.heddle.dev",
                               R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig")" + fields + "}"};
  };
  model::ResourceClaim object = claim({result("a", "gpu-0"), result("b/small", "gpu-0")});
  const auto priorities = [&] {
    const auto grant = grant_of(object, "uid", node(), false);
    EXPECT_TRUE(grant) << grant.error().text();
    return grant ? std::vector<int64_t>{grant->devices[0].priority, grant->devices[1].priority}
                 : std::vector<int64_t>{};
  };
  EXPECT_EQ(priorities(), (std::vector<int64_t>{0, 0}));
  object.spec.config = {config({"b"}, R"(,"priority":1)")};
  EXPECT_EQ(priorities(), (std::vector<int64_t>{0, 1})) << "allocations of another version carry no configuration";
  object.allocation->config = {{true, config({"a", "b/small"}, R"(,"priority":1)")},
                               {false, config({"a"}, R"(,"priority":0)")},
                               {false, config({}, R"(,"memoryPercent":50)")},
                               {false, {{}, "other.example.com", "{}"}}};
  EXPECT_EQ(priorities(), (std::vector<int64_t>{0, 1})) << "the claim's word goes before its class'";
  object.allocation->config = {{false, config({"a"}, R"(,"rank":0)")}};
  EXPECT_EQ(grant_of(object, "uid", node(), false).error().field, "[rank]");
}

TEST(GrantOf, VirtualMemoryIsOfNvidiasCardsAndMoreThanTheShare) {
  model::ResourceClaim object = claim({result("a", "gpu-0"), result("b", "gpu-0")});
  const auto config = [](const std::string& amount) {
    return model::OpaqueConfig{
        {"a"},
        "accelerator.heddle.dev",
        R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","virtualMemory":")" + amount + "\"}"};
  };
  object.spec.config = {config("12Gi")};
  NodeCards cards = node();
  const auto grant = grant_of(object, "uid", cards, false);
  ASSERT_TRUE(grant) << grant.error().text();
  EXPECT_EQ(grant->devices[0].memory_bytes, 3000 * kMiB);
  EXPECT_EQ(grant->devices[0].virtual_bytes, 12288 * kMiB);
  EXPECT_EQ(grant->devices[1].virtual_bytes, 0) << "the configuration does not speak of it";
  object.spec.config = {config("3000Mi")};
  const auto little = grant_of(object, "uid", cards, false);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().field, "virtualMemory");
  EXPECT_NE(little.error().message.find("3000Mi is not more than the 3000Mi granted"), std::string::npos);
  object.spec.config = {config("12Gi")};
  cards.cards[0].architecture = "Maxwell";
  EXPECT_EQ(grant_of(object, "uid", cards, false).error().field, "virtualMemory");
  cards.cards[0].partition = {"GPU-9", "1g.5gb", 2, 9, 0};
  object.allocation->results = {result("a", "gpu-0-1g-5gb-2")};
  EXPECT_EQ(grant_of(object, "uid", cards, false).error().code, Code::kUnsupported);
}

TEST(GrantOf, MpsHoldsOnePercentageOfEachCard) {
  model::ResourceClaim object = claim({result("a", "gpu-0")});
  object.spec.config = {{{"a"},
                         "accelerator.heddle.dev",
                         R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","isolation":"mps"})"}};
  const auto grant = grant_of(object, "uid", node(), false);
  ASSERT_TRUE(grant) << grant.error().text();
  EXPECT_TRUE(grant->devices[0].mps);
  EXPECT_EQ(grant->devices[0].cores, 30);
  object.allocation->results[0].consumed_capacity["cores"] = Quantity::from_int(0);
  EXPECT_EQ(grant_of(object, "uid", node(), false).error().field, "isolation");
  NodeCards cards = node();
  cards.cards[1].healthy = true;
  object.allocation->results = {result("a", "gpu-0"), result("b", "gpu-1")};
  EXPECT_EQ(grant_of(object, "uid", cards, false).error().code, Code::kUnsupported) << "the other card has no mask";
  object.spec.config[0].requests = {};
  EXPECT_TRUE(grant_of(object, "uid", cards, false));
  object.allocation->results[1].consumed_capacity["cores"] = Quantity::from_int(40);
  EXPECT_FALSE(grant_of(object, "uid", cards, false));
}

TEST(GrantOf, APartitionIsGrantedWholeAndWithoutCardsBesideIt) {
  NodeCards cards = node();
  vendors::Card part = cards.cards[0];
  part.uuid = "MIG-0";
  part.memory_bytes = 4096 * kMiB;
  part.partition = {"GPU-0", "1g.5gb", 2, 9, 0};
  cards.cards.push_back(part);
  model::DeviceResult granted = result("gpu", "gpu-0-1g-5gb-2");
  granted.consumed_capacity.clear();
  const auto grant = grant_of(claim({granted}), "uid", cards, false);
  ASSERT_TRUE(grant) << grant.error().text();
  EXPECT_EQ(grant->devices[0].card_uuid, "MIG-0");
  EXPECT_EQ(grant->devices[0].gpu_instance, 9);
  EXPECT_EQ(grant->devices[0].memory_bytes, 4096 * kMiB);
  EXPECT_TRUE(grant->devices[0].whole_card());
  const auto mixed = grant_of(claim({granted, result("other", "gpu-0")}), "uid", cards, false);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, Code::kUnsupported);
}

TEST(GrantOf, APartitionThatIsMadeOnRequestKnowsItsCardItsPlaceAndWhatItTakes) {
  NodeCards cards = node();
  Parts parts{cards.cards[0], {"gpu-0", {{"slices", Quantity::from_int(7)}}}, {}, {}};
  model::Device part;
  part.name = "gpu-0-1g-5gb-2";
  part.attributes["profile"] = std::string("1g.5gb");
  part.attributes["placement"] = int64_t{2};
  part.capacity["memory"] = {Quantity::bytes(4096 * kMiB), {}};
  part.consumes_counters.push_back({"gpu-0", {{"slices", Quantity::from_int(1)}}, {}});
  parts.devices.push_back(part);
  cards.parts.push_back(parts);
  model::DeviceResult granted = result("gpu", part.name);
  granted.consumed_capacity.clear();
  const auto grant = grant_of(claim({granted}), "uid", cards, false);
  ASSERT_TRUE(grant) << grant.error().text();
  const GrantedDevice& device = grant->devices[0];
  EXPECT_EQ(device.card_uuid, "") << "it is not there yet";
  EXPECT_EQ(device.memory_bytes, 4096 * kMiB);
  EXPECT_TRUE(device.whole_card());
  ASSERT_TRUE(device.made);
  EXPECT_EQ(device.made->order, (vendors::PartitionOrder{"GPU-0", "1g.5gb", 2}));
  EXPECT_EQ(device.made->counters.at("slices"), (MadePartition::Counter{1, 7}));
  EXPECT_EQ(grant_of(claim({granted, result("other", "gpu-0")}), "uid", cards, false).error().code, Code::kUnsupported);
  cards.foreign["GPU-0"] = "somebody";
  EXPECT_EQ(grant_of(claim({granted}), "uid", cards, false).error().code, Code::kPermissionDenied);
}

TEST(GrantOf, ReadsSharesAndWholeCards) {
  model::DeviceResult whole = result("gpu/big", "gpu-0");
  whole.consumed_capacity.clear();
  model::DeviceResult other = result("nic", "eth0");
  other.driver = "dra.net";
  const auto grant = grant_of(claim({whole, other}), "uid", node(), false);
  ASSERT_TRUE(grant) << grant.error().text();
  ASSERT_EQ(grant->devices.size(), 1U) << "devices of other drivers are theirs";
  EXPECT_EQ(grant->devices[0].request, "gpu") << "containers list the request, not its alternative";
  EXPECT_TRUE(grant->devices[0].whole_card());
  EXPECT_EQ(grant->devices[0].memory_bytes, 8192 * kMiB);
  EXPECT_EQ(grant->pods, (std::vector<PodReference>{{"p", "pod-uid"}}));
  model::DeviceResult qualified = result("gpu", "gpu-0");
  qualified.consumed_capacity = {{"accelerator.heddle.dev/memory", Quantity::bytes(5 * kMiB)},
                                 {"accelerator.heddle.dev/cores", Quantity::from_int(0)}};
  const auto share = grant_of(claim({qualified}), "uid", node(), false);
  ASSERT_TRUE(share);
  EXPECT_EQ(share->devices[0].memory_bytes, 5 * kMiB);
  EXPECT_EQ(share->devices[0].cores, 0);
}

TEST(GrantOf, RefusesWhatMayNotBeCarriedOutHere) {
  model::ResourceClaim unallocated = claim({});
  unallocated.allocation.reset();
  model::ResourceClaim unreserved = claim({result("gpu", "gpu-0")});
  unreserved.reserved_for.clear();
  model::DeviceResult admin = result("gpu", "gpu-0");
  admin.admin_access = true;
  model::DeviceResult elsewhere = result("gpu", "gpu-0");
  elsewhere.pool = "n2/nvidia";
  model::DeviceResult nothing = result("gpu", "gpu-0");
  nothing.consumed_capacity["memory"] = Quantity::from_int(0);
  model::DeviceResult negative = result("gpu", "gpu-0");
  negative.consumed_capacity["cores"] = Quantity::from_int(-1);
  struct Case {
    const char* name;
    model::ResourceClaim claim;
    std::string uid;
    Code code;
  };
  const std::vector<Case> cases = {
      {"replaced", claim({result("gpu", "gpu-0")}), "older-uid", Code::kConflict},
      {"not allocated", unallocated, "uid", Code::kInvalidArgument},
      {"not reserved", unreserved, "uid", Code::kInvalidArgument},
      {"nothing of ours", claim({}), "uid", Code::kInvalidArgument},
      {"admin access", claim({admin}), "uid", Code::kUnsupported},
      {"another node's pool", claim({elsewhere}), "uid", Code::kNotFound},
      {"no such card", claim({result("gpu", "gpu-9")}), "uid", Code::kNotFound},
      {"unhealthy", claim({result("gpu", "gpu-1")}), "uid", Code::kUnavailable},
      {"served by another driver", claim({result("gpu", "gpu-2")}), "uid", Code::kPermissionDenied},
      {"no memory", claim({nothing}), "uid", Code::kInvalidArgument},
      {"negative cores", claim({negative}), "uid", Code::kInvalidArgument}};
  for (const Case& c : cases) {
    const auto grant = grant_of(c.claim, c.uid, node(), false);
    ASSERT_FALSE(grant) << c.name;
    EXPECT_EQ(grant.error().code, c.code) << c.name << ": " << grant.error().text();
  }
  // What runs already keeps running: a repeated Prepare of a prepared claim looks neither at health nor at owners.
  EXPECT_TRUE(grant_of(claim({result("gpu", "gpu-1")}), "uid", node(), true));
  EXPECT_TRUE(grant_of(claim({result("gpu", "gpu-2")}), "uid", node(), true));
}

TEST(CheckAlone, OneContainerOneClaim) {
  const std::vector<ContainerClaims> apart = {{"a", {"c1"}}, {"b", {"c2", "of-another-driver"}}, {"c", {}}};
  EXPECT_TRUE(check_alone("c1", {"c2"}, apart));
  EXPECT_TRUE(check_alone("c2", {"c1"}, apart));
  const std::vector<ContainerClaims> requests = {{"a", {"c1", "c1"}}};
  EXPECT_TRUE(check_alone("c1", {"c2"}, requests)) << "two requests of one claim";
  const std::vector<ContainerClaims> together = {{"a", {"c3"}}, {"b", {"c1", "c2"}}};
  EXPECT_TRUE(check_alone("c3", {"c1", "c2"}, together));
  for (const auto& [mine, other] : {std::pair("c1", "c2"), std::pair("c2", "c1")}) {
    const auto refused = check_alone(mine, {other, "c3"}, together);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_NE(refused.error().text().find("container b uses the claims"), std::string::npos) << refused.error().text();
  }
}

TEST(AnswerOf, NamesEachCdiDeviceOnce) {
  const auto grant =
      grant_of(claim({result("a", "gpu-0"), result("a", "gpu-0"), result("b", "gpu-0")}), "uid", node(), false);
  ASSERT_TRUE(grant);
  const auto answer = answer_of(*grant);
  ASSERT_EQ(answer.size(), 3U);
  EXPECT_EQ(answer[0].cdi_ids, std::vector<std::string>{"heddle.dev/claim=uid-a"});
  EXPECT_TRUE(answer[1].cdi_ids.empty());
  EXPECT_EQ(answer[2].cdi_ids, std::vector<std::string>{"heddle.dev/claim=uid-b"});
}

}  // namespace
}  // namespace heddle::agent
