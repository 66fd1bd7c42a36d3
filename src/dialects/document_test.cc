// Files beside the code that repeat what the catalogue says: docs/dialects.md and the chart's lists.
#include "dialects/document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "dialects/claim_form.h"
#include "dialects/container.h"
#include "dialects/testing.h"

namespace heddle::dialects::testing {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Document, IsUpToDate) {
  const std::string now = dialects_markdown(rules());
  if (std::getenv("HEDDLE_UPDATE_DOCS") != nullptr)
    std::ofstream(std::string(HEDDLE_SOURCE_DIR) + "/docs/dialects.md") << now;
  EXPECT_TRUE(read("docs/dialects.md") == now)
      << "run dialects_test with HEDDLE_UPDATE_DOCS=1 and commit docs/dialects.md";
}

// The webhook is asked about every name that a translation reads.
TEST(Document, TheChartAsksAboutEveryName) {
  const std::string values = read("charts/heddle/values.yaml");
  std::vector<std::string> prefixes;
  std::istringstream lines(values.substr(values.find("resourcePrefixes:")));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("    - ")) prefixes.push_back(line.substr(6));
  ASSERT_GT(prefixes.size(), 16U);
  const auto asked = [&](std::string key) {
    std::transform(key.begin(), key.end(), key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const std::string& prefix) { return key.starts_with(prefix); });
  };
  for (const catalog::RequestVendor& vendor : rules().vendors()) {
    for (const catalog::Domain& domain : vendor.domains) {
      for (const std::string& start : domain.starts)
        EXPECT_TRUE(asked(domain.prefix + start)) << domain.prefix << start;
      EXPECT_TRUE(!domain.starts.empty() || asked(domain.prefix)) << domain.prefix;
    }
  }
  EXPECT_TRUE(asked(std::string(kClassResource) + "heddle-nvidia"));
  // And about nothing else.
  for (const std::string& prefix : prefixes)
    EXPECT_TRUE(asks_for_device(rules(), prefix + "x") || asks_for_device(rules(), prefix)) << prefix;
  for (const char* kai :
       {"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name", "mps"})
    EXPECT_NE(values.find(kai), std::string::npos) << kai;
}

TEST(Document, TheChartHasAClassForEveryVendor) {
  const std::string classes = read("charts/heddle/templates/_helpers.tpl");
  for (const catalog::RequestVendor& vendor : rules().vendors()) {
    EXPECT_NE(classes.find("\"" + vendor.name + "\""), std::string::npos) << vendor.name;
    EXPECT_TRUE(is_vendor(vendor.name)) << vendor.name;
  }
}

}  // namespace
}  // namespace heddle::dialects::testing
