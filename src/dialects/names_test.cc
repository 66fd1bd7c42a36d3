#include "dialects/names.h"

#include <gtest/gtest.h>

#include <set>

namespace heddle::dialects {
namespace {

constexpr std::string_view kUid = "3F2504E0-4f89-11d3-9a0c-0305e82c3301";

TEST(Names, ShortNamesStayReadable) {
  EXPECT_EQ(claim_ref_name("main"), "heddle-main");
  EXPECT_EQ(claim_object_name("web-0", "main", kUid), "web-0-main-3f2504e04f");
  EXPECT_EQ(claim_object_name("web-7d9c-", "main", kUid), "web-7d9c-main-3f2504e04f");
  EXPECT_EQ(claim_object_name("", "main", kUid), "main-3f2504e04f");
}

TEST(Names, EveryNameIsALabelAndDifferentContainersDiffer) {
  const std::string x(63, 'x');
  const std::string pods[] = {"", "a", "a.b.c", std::string(253, 'p'), "p" + std::string(60, '-') + "q"};
  const std::string containers[] = {"c", x, x.substr(1) + "y", x.substr(0, 40), x.substr(0, 41), "a-" + x.substr(2)};
  for (const std::string& pod : pods) {
    std::set<std::string> refs;
    std::set<std::string> objects;
    for (const std::string& container : containers) {
      const std::string ref = claim_ref_name(container);
      const std::string object = claim_object_name(pod, container, kUid);
      EXPECT_TRUE(is_dns_label(ref)) << ref;
      EXPECT_TRUE(is_dns_label(object)) << object;
      EXPECT_TRUE(refs.insert(ref).second) << ref;
      EXPECT_TRUE(objects.insert(object).second) << object;
    }
  }
}

TEST(Names, AUidThatIsNoUuidStillGivesTenStableDigits) {
  const std::string name = claim_object_name("p", "c", "offline");
  EXPECT_EQ(name.size(), std::string("p-c-").size() + 10);
  EXPECT_EQ(name, claim_object_name("p", "c", "offline"));
  EXPECT_NE(name, claim_object_name("p", "c", "offline2"));
}

TEST(Names, Labels) {
  EXPECT_TRUE(is_dns_label("a-1"));
  for (const char* bad : {"", "-a", "a-", "a.b", "A", "a_b"}) EXPECT_FALSE(is_dns_label(bad)) << bad;
  EXPECT_FALSE(is_dns_label(std::string(64, 'a')));
}

}  // namespace
}  // namespace heddle::dialects
