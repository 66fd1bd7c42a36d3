// What must hold for the data that this program carries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(CatalogData, LoadsAndHasModels) {
  EXPECT_GE(built_in().vendors().size(), 2U);
  for (const Vendor& vendor : built_in().vendors()) EXPECT_FALSE(vendor.models.empty()) << vendor.name;
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
