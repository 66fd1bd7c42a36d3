#include "catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::catalog {
namespace {

using testing::HasSubstr;

constexpr std::string_view kHead =
    "vendor: acme\n"
    "title: Acme\n"
    "kind: gpu\n"
    "support: {level: documented, text: t}\n"
    "sources: {manual: {title: Manual, version: '1'}}\n";

Result<Catalog> load(const std::string& body, const std::string& head = std::string(kHead)) {
  return Catalog::load({{"acme.yaml", "acme", head + body}});
}

TEST(Catalog, ReadsAModelWithItsPartitions) {
  const auto catalog = load(
      "partition_tables:\n"
      "  halves:\n"
      "    mode: mixed\n"
      "    source: manual\n"
      "    slot: slice\n"
      "    slots: 2\n"
      "    counters: {cores: 10, memory: 8Gi}\n"
      "    profiles:\n"
      "      - {name: half, id: 3, memory: 4Gi, compute_units: 5, consumes: {cores: 5}, starts: [0, 1], count: 2}\n"
      "models:\n"
      "  - name: A1\n"
      "    products: [Acme A1]\n"
      "    memory: {value: 8Gi, source: manual}\n"
      "    compute_units: 10\n"
      "    compute_unit: core\n"
      "    partitions: halves\n"
      "    source: manual\n");
  ASSERT_TRUE(catalog) << catalog.error().text();
  const Model* model = catalog->find_model("acme", "A1");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->kind, "gpu");
  EXPECT_EQ(model->memory_bytes->value, int64_t{8} << 30);
  EXPECT_EQ(model->memory_bytes->source, "manual");
  EXPECT_EQ(model->partitioning.counters.at("memory"), int64_t{8} << 30);
  const Partition* half = model->partitioning.find("half");
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->id, 3);
  EXPECT_EQ(half->placements, (std::vector<Placement>{{0, 1}, {1, 1}}));
  EXPECT_EQ(half->source, "manual");
  EXPECT_EQ(catalog->find_model("acme", "a1"), nullptr);
  EXPECT_EQ(catalog->find_model("other", "A1"), nullptr);
}

TEST(Catalog, RefusesWhatCannotBeMeant) {
  const std::pair<std::string, const char*> cases[] = {
      {"models: [{name: A1}]", "acme.yaml:6: models[0].source: is missing: every figure names where it comes from"},
      {"models: [{name: A1, source: manul}]",
       "models A1: the source 'manul' is not among the vendor's sources; did you mean 'manual'?"},
      {"models: [{name: A1, memory: {value: 1Gi, source: x}, source: manual}]", "the source 'x' is not among"},
      {"models: [{name: A1, memory: 1Gi, allocatable: 2Gi, source: manual}]",
       "models[0].allocatable: is more than 'memory'"},
      {"models: [{name: A1, compute_units: 4, source: manual}]", "models[0].compute_unit: is missing"},
      {"models: [{name: A1, source: manual}, {name: A1, source: manual}]", "models[1]: 'A1' is there twice"},
      {"models: [{name: A1, partitions: thirds, source: manual}]", "models A1: there is no partition table 'thirds'"},
      {"systems: [{name: s, kind: node, models: [B2], source: manual}]", "systems s: there is no model 'B2'"},
      {"systems: [{name: s, kind: star, models: [], source: manual}]",
       "systems[0].kind: must be one of node, rack, supernode, slice, not 'star'"},
      {"device_nodes: [{path: /dev/a, per: card, source: manual}]",
       "device_nodes[0].per: must be one of driver, device, partition, not 'card'"},
      {"partition_tables: {t: {mode: mixed, source: manual, slot: s, slots: 2, profiles: [{name: p, starts: [1], size: "
       "2, count: 1}]}}",
       "partition_tables.t.profiles[0].starts: 1..2 lies outside the card's 2 slots"},
      {"partition_tables: {t: {mode: mixed, source: manual, counters: {c: 3}, profiles: [{name: p, consumes: {c: 2}, "
       "count: 2}]}}",
       "consumes.c: 2 of 3 for each of 2 is more than the card has"},
      {"partition_tables: {t: {mode: mixed, source: manual, profiles: [{name: p, consumes: {c: 2}, count: 2}]}}",
       "consumes.c: is not a counter of the table"},
      {"partition_tables: {t: {mode: mixed, source: manual, profiles: [{name: p, starts: [0], count: 1}]}}",
       "starts: needs 'slots' of the table"},
      {"partition_tables: {t: {mode: mixed, source: manual, profiles: [{name: p, count: 1}, {name: p, count: 1}]}}",
       "profiles[1].name: 'p' is there twice"},
  };
  for (const auto& [body, said] : cases) {
    const auto catalog = load(body);
    ASSERT_FALSE(catalog) << body;
    EXPECT_EQ(catalog.error().code, Code::kInvalidArgument);
    EXPECT_THAT(catalog.error().text(), HasSubstr(said)) << body;
  }
  EXPECT_THAT(load("", "vendor: acme\n").error().text(), HasSubstr("acme: title: is missing"));
  EXPECT_THAT(load("", "vendor: other\n").error().text(), HasSubstr("vendor: is 'other' in the folder of 'acme'"));
}

TEST(Catalog, MatchesProductsByNameThenByTheLongestPart) {
  const auto catalog = load(
      "models:\n"
      "  - {name: X1, products: [Acme X1], contains: [X1], source: manual}\n"
      "  - {name: X1-64, contains: ['X1 64G'], source: manual}\n"
      "  - {name: T1, contains: [T9], source: manual}\n"
      "  - {name: T2, contains: [Z9], source: manual}\n");
  ASSERT_TRUE(catalog) << catalog.error().text();
  const auto name = [&](const char* product) {
    const Model* model = catalog->match_product("acme", product);
    return model == nullptr ? std::string("-") : model->name;
  };
  EXPECT_EQ(name("ACME x1"), "X1");
  EXPECT_EQ(name("Acme X1 32G"), "X1");
  EXPECT_EQ(name("Acme X1 64G"), "X1-64");
  EXPECT_EQ(name("Acme T9 Z9"), "-") << "two parts of the same length fit: nothing is guessed";
  EXPECT_EQ(name("Acme"), "-");
  EXPECT_EQ(catalog->match_product("other", "Acme X1"), nullptr);
}

TEST(Catalog, LaterFilesExtendAndReplace) {
  const auto catalog =
      Catalog::load({{"one.yaml", "acme", std::string(kHead) + "models: [{name: A1, memory: 1Gi, source: manual}]\n"},
                     {"two.yaml", "acme",
                      "vendor: acme\n"
                      "sources: {site: {title: Our lab, version: '2'}}\n"
                      "models:\n"
                      "  - {name: A1, memory: 2Gi, source: site}\n"
                      "  - {name: A2, memory: 4Gi, source: manual}\n"}});
  ASSERT_TRUE(catalog) << catalog.error().text();
  EXPECT_EQ(catalog->find_model("acme", "A1")->memory_bytes->value, int64_t{2} << 30);
  EXPECT_EQ(catalog->find_model("acme", "A2")->memory_bytes->value, int64_t{4} << 30);
  EXPECT_EQ(catalog->find_vendor("acme")->title, "Acme");
  EXPECT_EQ(catalog->find_vendor("acme")->models.size(), 2U);
}

}  // namespace
}  // namespace heddle::catalog
