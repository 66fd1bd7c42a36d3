#include "cli/catalog_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace heddle::cli {
namespace {

using catalog::Catalog;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kNewModel =
    "vendor: nvidia\n"
    "sources:\n"
    "  lab: {title: Measured in our lab, version: '2026-10'}\n"
    "partition_tables:\n"
    "  x900:\n"
    "    mode: mixed\n"
    "    source: lab\n"
    "    slot: memory-slice\n"
    "    slots: 2\n"
    "    counters: {compute-slices: 2}\n"
    "    profiles:\n"
    "      - {name: 1g.64gb, memory: 64Gi, compute_units: 100, consumes: {compute-slices: 1}, starts: [0, 1], count: "
    "2}\n"
    "models:\n"
    "  - name: X900\n"
    "    products: [NVIDIA X900 128GB]\n"
    "    memory: 128Gi\n"
    "    compute_units: 200\n"
    "    compute_unit: SM\n"
    "    partitions: x900\n"
    "    source: lab\n";

// A folder of an administrator, removed at the end.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "/heddle-catalog-" + std::to_string(getpid())) {
    EXPECT_TRUE(make_directories(path_ + "/nvidia", 0755));
    EXPECT_TRUE(write_file_atomic(path_ + "/nvidia/hardware.yaml", kNewModel, 0644));
  }
  ~Folder() { (void)remove_tree(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(CatalogText, ListsVendorsOnALineEach) {
  const auto catalog = Catalog::built_in();
  const std::string text = catalog_list(*catalog, Output::kTable);
  EXPECT_THAT(text, testing::StartsWith("VENDOR "));
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(text, '\n')), catalog->vendors().size() + 1);
  const auto json = Json::parse(catalog_list(*catalog, Output::kJson));
  EXPECT_EQ(json["vendors"].size(), catalog->vendors().size());
  EXPECT_EQ(json["vendors"][0]["vendor"], "amd");
  EXPECT_EQ(json["vendors"][0]["support"], "documented");
}

TEST(CatalogText, ShowsAModelWithSourcesAndMarksWhatIsUnverified) {
  const auto catalog = Catalog::built_in();
  const auto text = catalog_show(*catalog, "nvidia/A100-40GB", Output::kTable);
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("memory        40Gi"));
  EXPECT_THAT(*text, HasSubstr("source: go-nvml"));
  EXPECT_THAT(*text, HasSubstr("3g.20gb    9   19968Mi  42       2        0,4 (size 4)"));
  EXPECT_THAT(*catalog_show(*catalog, "aws/inferentia", Output::kTable), HasSubstr("source: general (unverified)"));
  const auto json = Json::parse(*catalog_show(*catalog, "nvidia/NVIDIA A100-SXM4-40GB", Output::kJson));
  EXPECT_EQ(json["name"], "A100-40GB") << "a product name of the driver will do";
  EXPECT_EQ(json["memoryBytes"]["value"], int64_t{40960} << 20);
  EXPECT_EQ(json["memoryBytes"]["verified"], true);
  EXPECT_EQ(json["partitioning"]["profiles"].size(), 7U);
  EXPECT_EQ(json["partitioning"]["profiles"][4]["placements"],
            Json::parse(R"([{"start":0,"size":4},{"start":4,"size":4}])"));
}

TEST(CatalogText, ShowsEveryVendorAndModelInBothForms) {
  const auto catalog = Catalog::built_in();
  for (const catalog::Vendor& vendor : catalog->vendors()) {
    const auto json = Json::parse(*catalog_show(*catalog, vendor.name, Output::kJson));
    EXPECT_EQ(json["models"].size(), vendor.models.size());
    EXPECT_EQ(json["sources"].size(), vendor.sources.size());
    EXPECT_THAT(*catalog_show(*catalog, vendor.name, Output::kTable), HasSubstr(vendor.support_text));
    for (const catalog::Model& model : vendor.models) {
      for (const Output output : {Output::kTable, Output::kJson}) {
        EXPECT_THAT(*catalog_show(*catalog, vendor.name + "/" + model.name, output), HasSubstr(model.name));
      }
    }
  }
}

TEST(CatalogText, NamesTheNearestOfWhatIsNotThere) {
  const auto catalog = Catalog::built_in();
  const auto vendor = catalog_show(*catalog, "nvidea", Output::kTable);
  EXPECT_EQ(vendor.error().code, Code::kNotFound);
  EXPECT_THAT(vendor.error().text(), HasSubstr("no vendor 'nvidea'; did you mean 'nvidia'?"));
  EXPECT_THAT(catalog_show(*catalog, "ascend/910B9", Output::kTable).error().text(),
              HasSubstr("no model '910B9'; did you mean '910B"));
  EXPECT_THAT(catalog_show(*catalog, "vastai/qqqqqqqq", Output::kTable).error().text(), HasSubstr("it has VA16"));
}

// Adding a model is a change of data: a file in a folder, no build.
TEST(CatalogText, ANewModelOfAFolderIsShownAndValidated) {
  const Folder folder;
  const auto catalog = Catalog::with_folder(folder.path());
  ASSERT_TRUE(catalog) << catalog.error().text();
  const catalog::Model* model = catalog->match_product("nvidia", "nvidia x900 128gb");
  ASSERT_NE(model, nullptr);
  ASSERT_NE(model->partitioning.find("1g.64gb"), nullptr);
  EXPECT_EQ(model->partitioning.find("1g.64gb")->memory_bytes, int64_t{64} << 30);
  EXPECT_NE(catalog->find_model("nvidia", "A30"), nullptr) << "what is built in stays";
  EXPECT_THAT(*catalog_show(*catalog, "nvidia/X900", Output::kTable), HasSubstr("1g.64gb"));
  EXPECT_THAT(catalog_list(*catalog, Output::kTable), HasSubstr("X900"));
  EXPECT_FALSE(Catalog::with_folder(folder.path() + "/none"));

  const auto valid = validate_catalog_file(folder.path() + "/nvidia/hardware.yaml", kNewModel);
  ASSERT_TRUE(valid) << valid.error().text();
  EXPECT_THAT(valid->troubles, ElementsAre());
}

TEST(CatalogText, ValidationListsEveryTrouble) {
  std::string text = kNewModel;
  text.replace(text.find("memory: 128Gi"), 6, "memori");
  text.replace(text.find("partitions: x900"), 16, "partitions: x901");
  const auto checked = validate_catalog_file("d/hardware.yaml", text);
  ASSERT_TRUE(checked);
  EXPECT_THAT(checked->troubles,
              ElementsAre("d/hardware.yaml:16: models[0].memori: is not a known key; did you mean 'memory'?"));
  const auto later = validate_catalog_file("hardware.yaml", std::string(kNewModel) +
                                                                "systems: [{name: s, kind: node, "
                                                                "models: [X9], source: lab}]\n");
  EXPECT_THAT(later->troubles, ElementsAre("nvidia: systems s: there is no model 'X9'"));
  EXPECT_THAT(Json::parse(validation_json({*later}))["files"][0]["valid"], false);
  EXPECT_EQ(validate_catalog_file("new.yaml", text).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace heddle::cli
