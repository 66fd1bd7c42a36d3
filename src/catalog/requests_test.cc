#include "catalog/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/catalog.h"

namespace heddle::catalog {
namespace {

using testing::HasSubstr;

const Requests& built_in() {
  static const Requests requests = Requests::built_in().value();
  return requests;
}

TEST(Requests, EveryVendorOfTheFactsIsThere) {
  for (const char* vendor : {"amd", "ascend", "aws", "biren", "cambricon", "enflame", "google", "habana", "hygon",
                             "iluvatar", "intel", "kunlun", "metax", "mthreads", "nvidia", "thead", "vastai"}) {
    const RequestVendor* found = built_in().find_vendor(vendor);
    ASSERT_NE(found, nullptr) << vendor;
    EXPECT_FALSE(found->sources.empty()) << vendor;
  }
  EXPECT_EQ(built_in().vendors().size(), 17U);
}

TEST(Requests, OwnersOfKeys) {
  const auto what = [](std::string_view key) -> std::string {
    const Requests::Owner owner = built_in().owner(key);
    if (owner.vendor == nullptr) return "foreign";
    const std::string vendor = owner.vendor->name + " ";
    if (owner.family != nullptr) return vendor + owner.family->id;
    if (owner.partition != nullptr) return vendor + owner.partition->id;
    return vendor + (owner.refused != nullptr ? "refused" : "unknown");
  };
  EXPECT_EQ(what("nvidia.com/gpu"), "nvidia gpu");
  EXPECT_EQ(what("nvidia.com/gpumem-percentage"), "nvidia gpu");
  EXPECT_EQ(what("nvidia.com/mig-1g.5gb"), "nvidia mig");
  EXPECT_EQ(what("nvidia.com/mig-1g.5gb.shared"), "nvidia refused");
  EXPECT_EQ(what("nvidia.com/gpumemory"), "nvidia unknown");
  EXPECT_EQ(what("nvidia.com/GPU"), "nvidia unknown");
  EXPECT_EQ(what("volcano.sh/vgpu-number"), "nvidia volcano");
  EXPECT_EQ(what("huawei.com/Ascend910"), "ascend any-910");
  EXPECT_EQ(what("huawei.com/Ascend910B4-1-memory"), "ascend 910B4-1");
  EXPECT_EQ(what("huawei.com/Ascend910-2c"), "ascend static-910");
  EXPECT_EQ(what("huawei.com/Ascend910B5"), "ascend unknown");
  EXPECT_EQ(what("amd.com/cpx_nps4"), "amd modes");
  for (const char* foreign :
       {"nvidia.com/hostdev", "nvidia.com/rdma_shared", "nvidia.com/pgpu", "nvidia.com/GRID_T4-1Q", "nvidia.com/",
        "gpu", "x.nvidia.com/gpu", "cpu", "amd.com/xilinx", "google.com/rdma"}) {
    EXPECT_EQ(what(foreign), "foreign") << foreign;
  }
  EXPECT_EQ(built_in().nearest_key("nvidia.com/gpumemory"), "nvidia.com/gpumem");
}

TEST(Requests, TemplatesComeFromTheHardware) {
  const Requests::Owner owner = built_in().owner("huawei.com/Ascend310P");
  ASSERT_TRUE(owner.family && owner.family->hard_split);
  const HardSplit& split = *owner.family->hard_split;
  EXPECT_EQ(split.whole_mib, 21527);
  EXPECT_EQ(split.capacity_mib, 24576);
  EXPECT_EQ(split.cores, 8);
  ASSERT_EQ(split.templates.size(), 3U);
  EXPECT_EQ(split.templates[0].name, "vir01");
  EXPECT_EQ(split.templates[2].mib, 12288);
}

TEST(Requests, Patterns) {
  EXPECT_TRUE(matches_pattern("hami.io/*-devices-to-allocate", "hami.io/dcu-devices-to-allocate"));
  EXPECT_TRUE(matches_pattern("a*", "a"));
  EXPECT_FALSE(matches_pattern("a*b", "ac"));
  EXPECT_FALSE(matches_pattern("a", "ab"));
}

std::string trouble(const std::string& text, const std::string& vendor = "v") {
  const Catalog hardware = Catalog::built_in().value();
  const auto loaded = Requests::load({{"v/requests.yaml", vendor, text}}, hardware);
  return loaded ? "fine" : loaded.error().text();
}

TEST(Requests, BadFilesAreRefusedByName) {
  const std::string start = "vendor: v\ntitle: V\nsources: [x]\ndomains: [{prefix: v.com/}]\n";
  const std::string family = "families:\n- {id: a, dialect: d, noun: n, request: r, count: v.com/a}\n";
  EXPECT_EQ(trouble(start + family), "fine");
  EXPECT_THAT(trouble(start + family, "w"), HasSubstr("name of its folder"));
  EXPECT_THAT(trouble(start + "families:\n- {id: a, dialect: d, noun: n, request: r}\n"), HasSubstr("needs count"));
  EXPECT_THAT(trouble(start + family + "- {id: b, dialect: d, noun: n, request: r, count: v.com/a}\n"),
              HasSubstr("has a meaning already, by families[0].count; name it once"));
  EXPECT_THAT(trouble(start + "families:\n- {id: a, dialect: d, noun: n, request: r, count: w.com/a}\n"),
              HasSubstr("lies in none of the file's `domains`"));
  EXPECT_THAT(trouble(start + "families:\n- {id: a, dialect: d, noun: n, request: r, count: v.com/a, several: two}\n"),
              HasSubstr("shares, whole, whole-only"));
  EXPECT_THAT(trouble(start + "families:\n- {id: a, dialect: d, noun: n, request: r, count: v.com/a, cuont: b}\n"),
              HasSubstr("cuont"));
  EXPECT_THAT(trouble(start + "families:\n- {id: a, dialect: d, noun: n, request: r, count: v.com/a, hard-split: x}\n"),
              HasSubstr("no model \"x\""));
}

// Adding a vendor, or taking the place of one, is a change of data.
TEST(Requests, AnAdministratorsFileIsAnotherVendor) {
  const Catalog hardware = Catalog::built_in().value();
  auto files = embedded_inputs("requests.yaml");
  files.push_back({"mine/requests.yaml", "mine",
                   "vendor: mine\ntitle: Mine\nsources: [x]\ndomains: [{prefix: mine.com/}]\nfamilies:\n"
                   "- {id: a, dialect: d, noun: n, request: r, count: mine.com/card}\n"});
  const auto loaded = Requests::load(files, hardware);
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_NE(loaded->owner("mine.com/card").family, nullptr);
  EXPECT_NE(loaded->owner("nvidia.com/gpu").family, nullptr);
}

}  // namespace
}  // namespace heddle::catalog
