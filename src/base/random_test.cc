#include "base/random.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace heddle {
namespace {

TEST(RandomTest, TheSameSeedGivesTheSameNumbers) {
  SeededRandom a(7);
  SeededRandom b(7);
  SeededRandom c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = a.next();
    EXPECT_EQ(value, b.next());
    differs = differs || value != c.next();
  }
  EXPECT_TRUE(differs);
}

TEST(RandomTest, BelowStaysBelowAndReachesEverything) {
  SeededRandom random(1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(*seen.rbegin(), 6U);
}

TEST(RandomTest, UuidsAreVersionFour) {
  SeededRandom random(3);
  const std::regex form("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = make_uuid(random);
    EXPECT_TRUE(std::regex_match(uuid, form)) << uuid;
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(RandomTest, TheMachineGivesAsManyBytesAsAsked) {
  EXPECT_EQ(random_bytes(0)->size(), 0U);
  EXPECT_EQ(random_bytes(1000)->size(), 1000U);
  EXPECT_NE(*random_bytes(16), *random_bytes(16));
}

}  // namespace
}  // namespace heddle
