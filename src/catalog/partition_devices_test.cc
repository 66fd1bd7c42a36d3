#include "catalog/partition_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <set>

namespace heddle::catalog {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Catalog built_in() {
  auto catalog = Catalog::built_in();
  EXPECT_TRUE(catalog) << catalog.error().text();
  return catalog ? std::move(*catalog) : Catalog();
}

using Counters = std::map<std::string, int64_t>;

Counters counters_of(const std::map<std::string, Quantity>& quantities) {
  Counters out;
  for (const auto& [name, quantity] : quantities) out[name] = quantity.value().value_or(-1);
  return out;
}

std::string attribute(const model::Device& device, const std::string& name) {
  const auto* text = std::get_if<std::string>(&device.attributes.at(name));
  return text == nullptr ? "" : *text;
}

bool is_label(const std::string& name) {
  return !name.empty() && name.size() <= 63 && name.front() != '-' && name.back() != '-' &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || std::islower(c) != 0 || c == '-'; });
}

// Every form of a card, the current mode given for tables that have modes.
void each_form(const Catalog& catalog, const std::function<void(const PartitionTable&, const CardForms&)>& look) {
  for (const Vendor& vendor : catalog.vendors()) {
    for (const PartitionTable& table : vendor.tables) {
      SCOPED_TRACE(vendor.name + " " + table.name);
      if (table.mode != PartitionMode::kUniform) {
        const auto forms = partition_devices(table, "gpu-63");
        ASSERT_TRUE(forms) << forms.error().text();
        look(table, *forms);
        continue;
      }
      for (const Partition& partition : table.partitions) {
        const auto forms = partition_devices(table, "gpu-63", partition.name);
        ASSERT_TRUE(forms) << forms.error().text();
        EXPECT_EQ(forms->devices.size(), static_cast<size_t>(partition.count));
        look(table, *forms);
      }
    }
  }
}

TEST(PartitionDevices, OfEveryTableAreValidAndFitTheirCounters) {
  each_form(built_in(), [](const PartitionTable& table, const CardForms& forms) {
    EXPECT_EQ(forms.counters.name, "gpu-63");
    EXPECT_EQ(forms.whole.counters, forms.counters.counters);
    const Counters total = counters_of(forms.counters.counters);
    for (const auto& [name, value] : total) {
      EXPECT_TRUE(is_label(name)) << name;
      EXPECT_GT(value, 0) << name;
    }
    std::set<std::string> names;
    for (const model::Device& device : forms.devices) {
      EXPECT_TRUE(is_label(device.name)) << device.name;
      EXPECT_TRUE(names.insert(device.name).second) << device.name << " is there twice";
      EXPECT_NE(table.find(attribute(device, "profile")), nullptr);
      ASSERT_EQ(device.consumes_counters.size(), 1U);
      const Counters used = counters_of(device.consumes_counters.front().counters);
      EXPECT_FALSE(used.empty());
      for (const auto& [name, value] : used) {
        ASSERT_TRUE(total.contains(name)) << name;
        EXPECT_LE(value, total.at(name)) << device.name << " " << name;
      }
    }
  });
}

// Sets of devices that fit together and to which none can be added, as counts of ways to cut the card.
class Geometries {
 public:
  Geometries(const CardForms& forms, const std::set<std::string>& profiles) {
    for (const model::Device& device : forms.devices) {
      if (!profiles.contains(attribute(device, "profile"))) continue;
      devices_.push_back(counters_of(device.consumes_counters.front().counters));
    }
    left_ = counters_of(forms.counters.counters);
    taken_.resize(devices_.size());
  }

  int64_t count() {
    search(0);
    return maximal_;
  }

 private:
  [[nodiscard]] bool fits(const Counters& device) const {
    return std::ranges::all_of(device, [&](const auto& use) { return left_.at(use.first) >= use.second; });
  }

  void apply(const Counters& device, int64_t sign) {
    for (const auto& [name, value] : device) left_.at(name) -= sign * value;
  }

  void search(size_t next) {
    if (next == devices_.size()) {
      for (size_t i = 0; i < devices_.size(); ++i) {
        if (!taken_[i] && fits(devices_[i])) return;
      }
      ++maximal_;
      return;
    }
    if (fits(devices_[next])) {
      apply(devices_[next], 1);
      taken_[next] = true;
      search(next + 1);
      taken_[next] = false;
      apply(devices_[next], -1);
    }
    search(next + 1);
  }

  std::vector<Counters> devices_;
  std::vector<bool> taken_;
  Counters left_;
  int64_t maximal_ = 0;
};

CardForms forms_of(const Catalog& catalog, const char* model) {
  const Model* found = catalog.find_model("nvidia", model);
  EXPECT_NE(found, nullptr) << model;
  auto forms = partition_devices(found->partitioning, "gpu-0");
  EXPECT_TRUE(forms) << forms.error().text();
  return *forms;
}

// The user guide's pictures of valid combinations: the A100's halves have six and three ways, and there is 7g alone;
// the A30 has 4g and two by two ways of its halves.
TEST(PartitionDevices, CutACardInAsManyWaysAsTheVendorSays) {
  const Catalog catalog = built_in();
  EXPECT_EQ(Geometries(forms_of(catalog, "A100-40GB"), {"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}).count(),
            19);
  EXPECT_EQ(
      Geometries(forms_of(catalog, "H100-SXM5-80GB"), {"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}).count(),
      19);
  EXPECT_EQ(Geometries(forms_of(catalog, "A30"), {"1g.6gb", "2g.12gb", "4g.24gb"}).count(), 5);
}

TEST(PartitionDevices, NameProfilesAndPlacesApart) {
  const Catalog catalog = built_in();
  const CardForms forms = forms_of(catalog, "RTX-PRO-6000");
  std::vector<std::string> names;
  for (const model::Device& device : forms.devices) {
    if (device.name.ends_with("-0") && device.name.find("1g") != std::string::npos) names.push_back(device.name);
  }
  EXPECT_THAT(names, ElementsAre("gpu-0-1g-24gb-0", "gpu-0-1g-24gb-plus-me-0", "gpu-0-1g-24gb-plus-gfx-0",
                                 "gpu-0-1g-24gb-plus-me-all-0", "gpu-0-1g-24gb-me-0"));
  const CardForms a100 = forms_of(catalog, "A100-40GB");
  ASSERT_EQ(a100.devices.size(), 25U);
  const model::Device& second_half = a100.devices[21];
  EXPECT_EQ(second_half.name, "gpu-0-3g-20gb-4");
  EXPECT_EQ(attribute(second_half, "type"), "partition");
  EXPECT_EQ(attribute(second_half, "profile"), "3g.20gb");
  EXPECT_EQ(std::get<int64_t>(second_half.attributes.at("placement")), 4);
  EXPECT_EQ(second_half.capacity.at("memory").value.to_string(), "19968Mi");
  EXPECT_FALSE(second_half.allow_multiple_allocations);
  EXPECT_EQ(counters_of(second_half.consumes_counters.front().counters), (Counters{{"compute-slices", 3},
                                                                                   {"memory-slice-4", 1},
                                                                                   {"memory-slice-5", 1},
                                                                                   {"memory-slice-6", 1},
                                                                                   {"memory-slice-7", 1}}));
}

TEST(PartitionDevices, OfTemplatesWithoutPlacesTakeCountersAndMemory) {
  const Catalog catalog = built_in();
  const auto forms = partition_devices(catalog.find_model("ascend", "910B4")->partitioning, "npu-1");
  ASSERT_TRUE(forms);
  ASSERT_EQ(forms->devices.size(), 6U);
  EXPECT_EQ(forms->devices[5].name, "npu-1-vir10-3c-16g-1");
  EXPECT_EQ(counters_of(forms->devices[5].consumes_counters.front().counters),
            (Counters{{"ai-cores", 10}, {"ai-cpus", 3}, {"memory", int64_t{16384} << 20}}));
  EXPECT_EQ(forms->counters.counters.at("memory").to_string(), "32Gi");
}

TEST(PartitionDevices, OfOneModeAreAllTheCardIsCutInto) {
  PartitionTable table{.name = "modes",
                       .mode = PartitionMode::kUniform,
                       .slot = {},
                       .slots = 0,
                       .counters = {},
                       .partitions = {},
                       .notes = {},
                       .source = "x"};
  table.partitions.resize(2);
  table.partitions[0].name = "spx_nps1";
  table.partitions[0].count = 1;
  table.partitions[1].name = "cpx_nps4";
  table.partitions[1].count = 8;
  const auto forms = partition_devices(table, "gpu-0", "cpx_nps4");
  ASSERT_TRUE(forms);
  EXPECT_EQ(forms->devices.size(), 8U);
  EXPECT_EQ(counters_of(forms->whole.counters), (Counters{{"partitions", 8}}));
  EXPECT_EQ(counters_of(forms->devices[7].consumes_counters.front().counters), (Counters{{"partitions", 1}}));

  EXPECT_THAT(partition_devices(table, "gpu-0", "tpx").error().text(), HasSubstr("modes has no mode 'tpx'"));
  EXPECT_EQ(partition_devices(table, "gpu-0").error().code, Code::kInvalidArgument);
  table.mode = PartitionMode::kMixed;
  EXPECT_THAT(partition_devices(table, "gpu-0", "cpx_nps4").error().text(), HasSubstr("there is no mode to name"));
  table.slot = "slice";
  table.slots = 33;
  EXPECT_THAT(partition_devices(table, "gpu-0").error().text(), HasSubstr("33 counters"));
  EXPECT_EQ(partition_devices(PartitionTable{}, "gpu-0").error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace heddle::catalog
