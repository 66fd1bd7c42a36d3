// What must hold for the data that this program carries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "catalog/catalog.h"

namespace heddle::catalog {
namespace {

const Catalog& built_in() {
  static const Catalog catalog_value = [] {
    auto catalog = Catalog::built_in();
    EXPECT_TRUE(catalog) << catalog.error().text();
    return catalog ? std::move(*catalog) : Catalog();
  }();
  return catalog_value;
}

// The words of the attribute `vendor` that requests use, and more.
TEST(CatalogData, HasEveryVendorWithModelsAndAnHonestSupportLevel) {
  for (const char* name :
       {"amd",   "ascend", "aws",   "biren",    "cambricon", "enflame", "google", "habana",   "hygon", "iluvatar",
        "intel", "kunlun", "metax", "mthreads", "nvidia",    "thead",   "vastai", "rockchip", "hailo", "coral"}) {
    const Vendor* vendor = built_in().find_vendor(name);
    ASSERT_NE(vendor, nullptr) << name;
    EXPECT_FALSE(vendor->models.empty()) << name;
    EXPECT_FALSE(vendor->nodes.empty()) << name;
    EXPECT_FALSE(vendor->isolations.empty()) << name;
    EXPECT_NE(vendor->support, Support::kVerified) << name << ": say in this test on which hardware it ran";
  }
}

template <typename Look>
void each_model(Look look) {
  for (const Vendor& vendor : built_in().vendors()) {
    for (const Model& model : vendor.models) {
      SCOPED_TRACE(vendor.name + " " + model.name);
      look(vendor, model);
    }
  }
}

TEST(CatalogData, ProductNamesFindTheirOwnModel) {
  each_model([](const Vendor& vendor, const Model& model) {
    EXPECT_FALSE(model.products.empty() && model.contains.empty());
    for (const std::vector<std::string>& names : {model.products, model.contains}) {
      for (const std::string& name : names) {
        const Model* found = built_in().match_product(vendor.name, name);
        ASSERT_NE(found, nullptr) << name;
        EXPECT_EQ(found->name, model.name) << name;
      }
    }
  });
}

TEST(CatalogData, PartitionsFitTheModelTheyAreOf) {
  each_model([](const Vendor& vendor, const Model& model) {
    (void)vendor;
    for (const Partition& partition : model.partitioning.partitions) {
      SCOPED_TRACE(partition.name);
      if (model.memory_bytes && partition.memory_bytes) {
        EXPECT_LE(partition.count * *partition.memory_bytes, model.memory_bytes->value);
      }
      if (model.compute_units && partition.compute_units) {
        EXPECT_LE(partition.count * *partition.compute_units, model.compute_units->value);
      }
    }
  });
}

// As many as fit without overlap, and no more than the counters give.
int64_t most_of(const PartitionTable& table, const Partition& partition) {
  int64_t most = partition.placements.empty() ? 1024 : 0;
  int64_t end = 0;
  for (const Placement& placement : partition.placements) {  // in order of starts, all of one size
    if (placement.start < end) continue;
    end = placement.start + placement.size;
    ++most;
  }
  for (const auto& [counter, amount] : partition.consumes) most = std::min(most, table.counters.at(counter) / amount);
  const auto memory = table.counters.find("memory");
  if (memory != table.counters.end() && partition.memory_bytes) {
    most = std::min(most, memory->second / *partition.memory_bytes);
  }
  return most;
}

TEST(CatalogData, CountsFollowFromPlacementsAndCounters) {
  for (const Vendor& vendor : built_in().vendors()) {
    for (const PartitionTable& table : vendor.tables) {
      if (table.mode == PartitionMode::kUniform) continue;
      for (const Partition& partition : table.partitions) {
        EXPECT_TRUE(std::ranges::is_sorted(partition.placements, {}, &Placement::start));
        EXPECT_EQ(partition.count, most_of(table, partition))
            << vendor.name << " " << table.name << " " << partition.name;
      }
    }
  }
}

TEST(CatalogData, SystemsAddUp) {
  for (const Vendor& vendor : built_in().vendors()) {
    for (const System& system : vendor.systems) {
      SCOPED_TRACE(vendor.name + " " + system.name);
      if (system.devices && system.devices_per_node && system.nodes) {
        EXPECT_EQ(*system.devices, *system.devices_per_node * *system.nodes);
      }
      for (const std::vector<int64_t>& shape : system.shapes) {
        ASSERT_EQ(shape.size(), system.host.size());
        int64_t chips = 1;
        for (const int64_t axis : shape) chips *= axis;
        EXPECT_LE(chips, system.devices.value_or(0));
        if (chips <= system.devices_per_node.value_or(0)) continue;  // a part of one host
        for (size_t i = 0; i < shape.size(); ++i) EXPECT_EQ(shape[i] % system.host[i], 0);
      }
    }
  }
}

TEST(CatalogData, EverySourceIsUsedAndEveryTableHasAModel) {
  for (const Vendor& vendor : built_in().vendors()) {
    std::set<std::string> used;
    std::set<std::string> tables;
    for (const DeviceNode& node : vendor.nodes) used.insert(node.source);
    for (const Variable& variable : vendor.variables) used.insert(variable.source);
    for (const VersionPair& pair : vendor.versions) used.insert(pair.source);
    for (const System& system : vendor.systems) used.insert(system.source);
    for (const PartitionTable& table : vendor.tables) {
      used.insert(table.source);
      for (const Partition& partition : table.partitions) used.insert(partition.source);
    }
    for (const Model& model : vendor.models) {
      used.insert(model.source);
      tables.insert(model.partitioning.name);
      for (const auto& figure : {model.memory_bytes, model.allocatable_bytes, model.compute_units}) {
        if (figure) used.insert(figure->source);
      }
    }
    for (const Source& source : vendor.sources)
      EXPECT_TRUE(used.contains(source.id)) << vendor.name << " " << source.id;
    for (const PartitionTable& table : vendor.tables) EXPECT_TRUE(tables.contains(table.name)) << table.name;
  }
}

TEST(CatalogData, HasTheAscendTemplatesOfTheSpecification) {
  struct Case {
    const char* model;
    int64_t allocatable_mib;
    int64_t capacity_mib;
    int64_t cores;
    std::vector<std::pair<int64_t, int64_t>> templates;  // MiB, AI cores
  };
  const Case cases[] = {
      {"910A", 32768, 32768, 30, {{2184, 2}, {4369, 4}, {8738, 8}, {17476, 16}}},
      {"910B2", 65536, 65536, 24, {{8192, 3}, {16384, 6}, {32768, 12}}},
      {"910B3", 65536, 65536, 20, {{16384, 5}, {32768, 10}}},
      {"910B4-1", 65536, 65536, 20, {{16384, 5}, {32768, 10}}},
      {"910B4", 32768, 32768, 20, {{8192, 5}, {16384, 10}}},
      {"310P", 21527, 24576, 8, {{3072, 1}, {6144, 2}, {12288, 4}}},
      {"910C", 65536, 65536, 20, {{16384, 5}, {32768, 10}}},
  };
  for (const Case& c : cases) {
    const Model* model = built_in().find_model("ascend", c.model);
    ASSERT_NE(model, nullptr) << c.model;
    EXPECT_EQ(model->allocatable_bytes->value, c.allocatable_mib << 20) << c.model;
    EXPECT_EQ(model->memory_bytes->value, c.capacity_mib << 20) << c.model;
    EXPECT_EQ(model->compute_units->value, c.cores) << c.model;
    std::vector<std::pair<int64_t, int64_t>> templates;
    templates.reserve(c.templates.size());
    for (const Partition& partition : model->partitioning.partitions) {
      templates.emplace_back(*partition.memory_bytes >> 20, *partition.compute_units);
    }
    EXPECT_EQ(templates, c.templates) << c.model;
  }
  EXPECT_EQ(built_in().match_product("ascend", "910B4-1")->name, "910B4-1");
  EXPECT_EQ(built_in().match_product("ascend", "910B4")->name, "910B4");
}

}  // namespace
}  // namespace heddle::catalog
