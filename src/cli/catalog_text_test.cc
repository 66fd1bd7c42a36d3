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
    // As in a ConfigMap that is mounted whole.
    EXPECT_TRUE(make_directories(path_ + "/..data", 0755));
    EXPECT_TRUE(write_file_atomic(path_ + "/..data/hardware.yaml", "vendor: other", 0644));
  }
  ~Folder() { (void)remove_tree(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> troubles_of(const std::string& file, const std::string& text) {
  const auto checked = validate_catalog_files({{file, text}});
  return checked ? checked->front().troubles : std::vector{"error: " + checked.error().text()};
}

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

  EXPECT_THAT(troubles_of(folder.path() + "/nvidia/hardware.yaml", kNewModel), ElementsAre());
}

TEST(CatalogText, ValidationListsEveryTrouble) {
  std::string text = kNewModel;
  text.replace(text.find("memory: 128Gi"), 6, "memori");
  text.replace(text.find("partitions: x900"), 16, "partitions: x901");
  EXPECT_THAT(troubles_of("d/nvidia/hardware.yaml", text),
              ElementsAre("d/nvidia/hardware.yaml:16: models[0].memori: is not a known key; did you mean 'memory'?"));
  const auto later =
      validate_catalog_files({{"hardware.yaml", std::string(kNewModel) + "systems: [{name: s, kind: node, "
                                                                         "models: [X9], source: lab}]\n"}});
  ASSERT_TRUE(later);
  EXPECT_THAT(later->front().troubles, ElementsAre("nvidia: systems s: there is no model 'X9'"));
  EXPECT_THAT(Json::parse(validation_json(*later))["files"][0]["valid"], false);
  EXPECT_EQ(validate_catalog_files({{"new.yaml", text}}).error().code, Code::kInvalidArgument);
}

constexpr const char* kNewRequests =
    "vendor: mine\n"
    "title: Mine\n"
    "sources: [our own plugin]\n"
    "domains: [{prefix: mine.com/}]\n"
    "families:\n"
    "- id: card\n"
    "  dialect: ours\n"
    "  noun: card\n"
    "  request: card\n"
    "  count: mine.com/card\n"
    "  memory: {keys: mine.com/card-memory, unit: 1Mi}\n";

TEST(CatalogText, ValidatesRequestsToo) {
  EXPECT_THAT(troubles_of("c/mine/requests.yaml", kNewRequests), ElementsAre());
  EXPECT_THAT(troubles_of("requests-new.yaml", kNewRequests), ElementsAre()) << "without a folder any vendor will do";
  for (const catalog::InputFile& file : catalog::embedded_inputs("requests.yaml")) {
    EXPECT_THAT(troubles_of(file.vendor + "/requests.yaml", file.text), ElementsAre()) << file.name;
  }
}

// Every rule of the form, each with where and what to write instead.
TEST(CatalogText, SaysWhereRequestsAreWrongAndWhatToWrite) {
  struct Case {
    const char* from;
    const char* to;
    const char* said;
  };
  const Case cases[] = {
      {"vendor: mine", "vendor: Mine", ":1: vendor: \"Mine\" must be up to 63 small letters, digits and '-'"},
      {"vendor: mine", "vendor: other", ":1: vendor: must be the name of its folder, mine"},
      {"prefix: mine.com/", "prefix: mine.com", ":4: domains[0].prefix: must end with /"},
      {"{prefix: mine.com/}", "{prefix: mine.com/, starts: [gpu]}",
       ":10: families[0].count: \"mine.com/card\" lies in none of the file's `domains`; add its prefix, or its "
       "beginning to `starts`"},
      {"{prefix: mine.com/}", "{prefix: mine.com/, foreign: [card]}",
       ":10: families[0].count: \"mine.com/card\" lies in"},
      {"request: card", "request: Card", ":9: families[0].request: \"Card\" must be up to 63 small letters"},
      {"count: mine.com/card", "count: card", ":10: families[0].count: \"card\" is no name of an extended resource"},
      {"count: mine.com/card", "count: [mine.com/card, mine.com/a b]",
       ":10: families[0].count[1]: \"mine.com/a b\" is no name of an extended resource; write it as"},
      {"mine.com/card-memory", "mine.com/card",
       ":11: families[0].memory.keys: \"mine.com/card\" has a meaning already, by families[0].count; name it once"},
      {"unit: 1Mi", "unit: 1500Ki", ":11: families[0].memory.unit: must be whole MiB"},
      {"unit: 1Mi", "unit: 1Mi, values: [2, 2]",
       ":11: families[0].memory.values[1]: must be larger than the one before"},
      {"unit: 1Mi", "unit: 1Mi, steps: [{units: 2, cores: 1}, {units: 1, cores: 2}]",
       ":11: families[0].memory.steps[1].units: must be larger"},
      {"unit: 1Mi}", "unit: 1Mi}\n  cores: {keys: mine.com/c, from: 9, to: 4, default: none}",
       ":12: families[0].cores.from: must be at most `to`, 4"},
      {"unit: 1Mi}", "unit: 1Mi}\n  soft-split: {annotation: a, value: b}",
       ":12: families[0].soft-split: has no meaning without `hard-split`; leave it out"},
      {"unit: 1Mi}", "unit: 1Mi}\n  hard-split: X1",
       ":12: families[0].hard-split: the hardware of mine has no model \"X1\" with memory, compute and templates; add"},
      {"unit: 1Mi}", "unit: 1Mi}\n- {id: card, dialect: d, noun: n, request: r, count: mine.com/x}",
       ":12: families[1].id: \"card\" is there twice; each needs its own"},
      {"unit: 1Mi}",
       "unit: 1Mi}\npartitions: [{id: p, dialect: d, noun: n, request: r, prefixes: [x.com/p-], rule: mig}]",
       ":12: partitions[0].prefixes: \"x.com/p-\" lies in none"},
      {"unit: 1Mi}", "unit: 1Mi}\nrefused: [{key: 'x.com/*', why: w, write: w}]",
       ":12: refused[0].key: \"x.com/\" lies in none"},
      {"dialect: ours", "dialekt: ours", ":7: families[0].dialekt: is not a known key; did you mean 'dialect'?"},
      {"domains: [{prefix: mine.com/}]", "domains: [{prefix: mine.com/}, {prefix: nvidia.com/}]", nullptr},
      {"title: Mine\n", "title: Mine: b\n", ":2: illegal map value"},
  };
  for (const Case& c : cases) {
    std::string text = kNewRequests;
    text.replace(text.find(c.from), std::string_view(c.from).size(), c.to);
    const auto troubles = troubles_of("c/mine/requests.yaml", text);
    if (c.said == nullptr) {
      EXPECT_THAT(troubles, ElementsAre()) << c.to;
      continue;
    }
    EXPECT_THAT(troubles, testing::Contains(HasSubstr("c/mine/requests.yaml" + std::string(c.said)))) << c.to;
  }
}

TEST(CatalogText, AKeyOfAnotherVendorIsNamedWithBothPlaces) {
  std::string text = kNewRequests;
  text.replace(text.find("mine.com/}"), 10, "nvidia.com/}");
  text.replace(text.find("mine.com/card\n"), 13, "nvidia.com/gpu");
  text.replace(text.find("mine.com/card-memory"), 20, "nvidia.com/mine");
  EXPECT_THAT(
      troubles_of("c/mine/requests.yaml", text),
      ElementsAre(testing::AllOf(HasSubstr("nvidia/requests.yaml:"), HasSubstr("c/mine/requests.yaml:6: families[0]"),
                                 HasSubstr("\"nvidia.com/gpu\" has a meaning already"))));
}

TEST(CatalogText, RequestsMayNameModelsOfTheHardwareGivenBeside) {
  std::string requests = std::string(kNewRequests) + "  hard-split: X900\n";
  requests.replace(requests.find("mine\n"), 4, "nvidia");
  EXPECT_EQ(troubles_of("c/nvidia/requests.yaml", requests).size(), 1U);
  const auto both =
      validate_catalog_files({{"c/nvidia/requests.yaml", requests}, {"c/nvidia/hardware.yaml", kNewModel}});
  ASSERT_TRUE(both);
  EXPECT_THAT((*both)[0].troubles, ElementsAre());
  EXPECT_THAT((*both)[1].troubles, ElementsAre());
  const auto context =
      validate_catalog_files({{"c/nvidia/requests.yaml", requests}}, {{"c/nvidia/hardware.yaml", kNewModel}});
  ASSERT_TRUE(context);
  EXPECT_THAT(context->front().troubles, ElementsAre());
}

}  // namespace
}  // namespace heddle::cli
