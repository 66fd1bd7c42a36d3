// MIG and other hard partitions as the allocator sees them: the devices of catalog/partition_devices.h on one node.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "allocator/allocator.h"
#include "allocator/node_pools.h"
#include "catalog/partition_devices.h"

namespace heddle::allocator {
namespace {

constexpr const char* kDriver = "accelerator.heddle.dev";

// One node with cards of one model: slices as an agent writes them, the counter sets in one of their own.
class Cards {
 public:
  Cards(const char* vendor, const char* model_name, int cards) {
    const auto catalog = catalog::Catalog::built_in();
    const catalog::Model* model = catalog->find_model(vendor, model_name);
    EXPECT_NE(model, nullptr) << model_name;
    node_.meta.name = "node-1";
    model::ResourceSlice counters = slice("counters");
    model::ResourceSlice devices = slice("devices");
    for (int i = 0; i < cards; ++i) {
      const std::string name = "gpu-" + std::to_string(i);
      auto forms = catalog::partition_devices(model->partitioning, name);
      EXPECT_TRUE(forms) << forms.error().text();
      counters.shared_counters.push_back(forms->counters);
      model::Device card;
      card.name = name;
      card.attributes["profile"] = std::string("whole");
      card.capacity["memory"] = {.value = Quantity::bytes(int64_t{40} << 30), .policy = {}};
      card.allow_multiple_allocations = true;
      card.consumes_counters.push_back(forms->whole);
      devices.devices.push_back(std::move(card));
      for (model::Device& device : forms->devices) devices.devices.push_back(std::move(device));
    }
    slices_ = {std::move(counters), std::move(devices)};
    classes_["any"].meta.name = "any";
  }

  // Whether one claim with a request for each entry can be allocated beside what take() took.
  Result<std::optional<model::Allocation>> allocate(const std::vector<std::string>& profiles) {
    model::ClaimSpec spec;
    for (const std::string& profile : profiles) {
      model::DeviceRequest request;
      request.name = "r" + std::to_string(spec.requests.size());
      request.exactly = model::DeviceSubRequest{};
      request.exactly->device_class = "any";
      request.exactly->allocation_mode = "ExactCount";
      request.exactly->count = 1;
      const bool share = profile == "share";
      if (share) request.exactly->capacity["memory"] = Quantity::bytes(int64_t{1} << 30);
      std::string selector =
          std::string("device.attributes[\"") + kDriver + "\"].profile == \"" + (share ? "whole" : profile) + "\"";
      request.exactly->selectors.push_back(std::move(selector));
      spec.requests.push_back(std::move(request));
    }
    NodeInput input{.node = &node_, .slices = {}, .allocated = {}, .features = {}};
    for (const model::ResourceSlice& slice : slices_) input.slices.push_back(&slice);
    for (const model::Allocation& allocation : taken_) input.allocated.push_back(&allocation);
    HEDDLE_TRY(const auto pools, NodePools::make(input));
    QueryCache cache;
    HEDDLE_TRY(auto claims, prepare({{.key = "ns/c", .spec = &spec, .memory_percent = {}}}, classes_, cache, {}));
    HEDDLE_TRY(const auto solution, solve(pools->view(), claims, FirstFit(), {}, {.steps = 1'000'000}));
    if (!solution) return std::optional<model::Allocation>();
    SeededRandom random(seed_++);
    HEDDLE_TRY(auto allocation, make_allocation(claims[0], *solution, 0, "node-1", random));
    return std::optional<model::Allocation>(std::move(allocation));
  }

  bool fit(const std::vector<std::string>& profiles) {
    const auto allocation = allocate(profiles);
    EXPECT_TRUE(allocation) << allocation.error().text();
    return allocation && allocation->has_value();
  }

  void take(const std::vector<std::string>& profiles) {
    auto allocation = allocate(profiles);
    ASSERT_TRUE(allocation && *allocation);
    taken_.push_back(std::move(**allocation));
  }

 private:
  static model::ResourceSlice slice(const std::string& name) {
    model::ResourceSlice out;
    out.meta.name = name;
    out.driver = kDriver;
    out.pool = "node-1/gpu";
    out.generation = 1;
    out.pool_slice_count = 2;
    out.scope = {.kind = model::NodeScope::Kind::kNode, .node = "node-1", .selector = {}};
    return out;
  }

  model::Node node_;
  std::vector<model::ResourceSlice> slices_;
  ClassMap classes_;
  std::vector<model::Allocation> taken_;
  uint64_t seed_ = 1;
};

std::vector<std::string> times(size_t count, const std::string& profile) {
  std::vector<std::string> out(count, profile);
  return out;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Partitions, OfAnA100FitAsTheVendorSays) {
  struct Case {
    std::vector<std::string> profiles;
    bool fits;
  };
  const Case cases[] = {
      {times(7, "1g.5gb"), true},
      {times(8, "1g.5gb"), false},
      {times(3, "2g.10gb"), true},
      {times(4, "2g.10gb"), false},
      {times(2, "3g.20gb"), true},
      {times(3, "3g.20gb"), false},
      {{"4g.20gb", "3g.20gb"}, true},
      {{"4g.20gb", "4g.20gb"}, false},
      {times(4, "1g.10gb"), true},
      {times(5, "1g.10gb"), false},
      {{"7g.40gb"}, true},
      {{"7g.40gb", "1g.5gb"}, false},
      // The vendor's own "balanced" cut, and one more small one.
      {{"1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"}, true},
      {{"1g.5gb", "1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"}, false},
      // One profile with media engines a card.
      {{"1g.5gb+me", "1g.5gb"}, true},
      {{"1g.5gb+me", "1g.5gb+me"}, false},
      // Seven compute slices are not all: 2g may not start at 6, and 3g takes a slice that 1g cannot.
      {{"3g.20gb", "2g.10gb", "2g.10gb"}, true},
      {{"3g.20gb", "3g.20gb", "1g.5gb"}, false},
      {{"4g.20gb", "2g.10gb", "1g.5gb"}, true},
      {{"4g.20gb", "1g.10gb", "1g.10gb"}, true},
  };
  for (const Case& c : cases) {
    Cards cards("nvidia", "A100-40GB", 1);
    std::string text;
    for (const std::string& profile : c.profiles) text += profile + " ";
    EXPECT_EQ(cards.fit(c.profiles), c.fits) << text;
    std::vector<std::string> backwards(c.profiles.rbegin(), c.profiles.rend());
    EXPECT_EQ(cards.fit(backwards), c.fits) << "the other way round: " << text;
  }
}

TEST(Partitions, WholeAndSharedAndCutExcludeEachOther) {
  Cards cards("nvidia", "A100-40GB", 2);
  cards.take({"3g.20gb"});
  EXPECT_FALSE(cards.fit({"whole", "whole"})) << "one of the two cards is cut";
  EXPECT_TRUE(cards.fit({"whole", "4g.20gb"}));
  EXPECT_TRUE(cards.fit(joined({"whole"}, {"3g.20gb"})));
  cards.take({"share"});
  EXPECT_TRUE(cards.fit({"share"})) << "shares of one card pay its counters once";
  EXPECT_FALSE(cards.fit({"7g.40gb"})) << "one card is cut, the other is shared";
  EXPECT_TRUE(cards.fit({"share", "4g.20gb"}));
  EXPECT_FALSE(cards.fit(times(2, "4g.20gb")));
}

TEST(Partitions, OfOtherCardsFollowTheirTables) {
  EXPECT_TRUE(Cards("nvidia", "RTX-PRO-6000", 1).fit(joined({"1g.24gb+me.all"}, times(3, "1g.24gb-me"))));
  EXPECT_FALSE(Cards("nvidia", "RTX-PRO-6000", 1).fit({"1g.24gb+me.all", "1g.24gb"})) << "no decoder is left";
  EXPECT_TRUE(Cards("ascend", "910B3", 1).fit({"vir10_3c_32g", "vir05_1c_16g", "vir05_1c_16g"}));
  EXPECT_FALSE(Cards("ascend", "910B3", 1).fit({"vir10_3c_32g", "vir10_3c_32g", "vir05_1c_16g"}));
  EXPECT_FALSE(Cards("ascend", "310P", 1).fit(times(2, "vir04"))) << "8 AI cores, but 7 AI CPUs";
  EXPECT_TRUE(Cards("ascend", "310P", 2).fit(times(2, "vir04")));
}

}  // namespace
}  // namespace heddle::allocator
