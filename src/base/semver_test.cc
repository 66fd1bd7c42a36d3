#include "base/semver.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Semver, ReadsAndWritesBack) {
  for (const char* text :
       {"0.0.0", "1.2.3", "1.2.3-alpha.1", "1.2.3+build.5", "1.0.0-x-y-z.--", "18446744073709551615.0.0"}) {
    auto version = Semver::parse(text);
    ASSERT_TRUE(version) << text;
    EXPECT_EQ(version->to_string(), text);
  }
}

TEST(Semver, RefusesWhatIsNoVersion) {
  for (const char* text : {"", "1", "1.2", "1.2.x", "01.2.3", "1.02.3", "1.2.03", "1.2.3-", "1.2.3-01", "1.2.3+",
                           "1.2.3-a..b", "v1.2.3", "-1.2.3", "1.2.3-\xC3\xA9", "18446744073709551616.0.0"})
    EXPECT_FALSE(Semver::parse(text)) << text;
}

TEST(Semver, OrdersByTheRulesOfTheNorm) {
  const char* ascending[] = {"0.9.0",      "1.0.0-alpha",  "1.0.0-alpha.1", "1.0.0-alpha.beta",
                             "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
                             "1.0.0",      "1.0.1",        "1.10.0",        "2.0.0"};
  for (size_t i = 0; i < std::size(ascending); ++i)
    for (size_t j = 0; j < std::size(ascending); ++j)
      EXPECT_EQ(Semver::parse(ascending[i])->compare(*Semver::parse(ascending[j])), i < j ? -1 : (i > j ? 1 : 0))
          << ascending[i] << " and " << ascending[j];
  EXPECT_EQ(Semver::parse("1.0.0+a")->compare(*Semver::parse("1.0.0+b")), 0);
}

TEST(Semver, NormalizesShortForms) {
  EXPECT_EQ(Semver::parse_normalized("v1")->to_string(), "1.0.0");
  EXPECT_EQ(Semver::parse_normalized("01.02")->to_string(), "1.2.0");
  EXPECT_EQ(Semver::parse_normalized("1.2.003-a")->to_string(), "1.2.3-a");
  EXPECT_EQ(Semver::parse_normalized("1.00.0")->to_string(), "1.0.0");
  EXPECT_FALSE(Semver::parse_normalized("1.2-alpha"));
  EXPECT_FALSE(Semver::parse_normalized("vv1"));
  EXPECT_FALSE(Semver::parse_normalized(""));
}

}  // namespace
}  // namespace heddle
