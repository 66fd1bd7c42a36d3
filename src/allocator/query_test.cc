#include "allocator/query.h"

#include <gtest/gtest.h>

#include "allocator/prepare.h"

namespace heddle::allocator {
namespace {

class QueryCacheBounds : public testing::Test {
 protected:
  std::shared_ptr<Query> ask(std::string selector) {
    model::DeviceClass device_class;
    device_class.meta.name = "any";
    model::DeviceSubRequest request;
    request.selectors.push_back(std::move(selector));
    return cache_.get(device_class, request, options_);
  }

  QueryCache cache_;
  Options options_;
};

TEST_F(QueryCacheBounds, EqualQuestionsShareAQuery) {
  const auto query = ask("device.driver == 'a'");
  EXPECT_EQ(query, ask("device.driver == 'a'"));
  EXPECT_NE(query, ask("device.driver == 'b'"));
  EXPECT_EQ(cache_.sizes().programs, 2U);
}

TEST_F(QueryCacheBounds, ManySelectorsOfAllTimeAreNotKept) {
  for (int i = 0; i < 5000; ++i) ask("device.driver == '" + std::to_string(i) + "'");
  const QueryCache::Sizes sizes = cache_.sizes();
  EXPECT_LE(sizes.programs, 4096U);
  EXPECT_LE(sizes.queries, 4096U);
  EXPECT_GT(sizes.queries, 900U);
}

TEST_F(QueryCacheBounds, LongSelectorsAreBoundedByTheirText) {
  std::shared_ptr<Query> last;
  for (int i = 0; i < 300; ++i) last = ask("device.driver == '" + std::to_string(i) + std::string(10'000, 'x') + "'");
  const QueryCache::Sizes sizes = cache_.sizes();
  EXPECT_LE(sizes.program_text, size_t{1} << 20);
  EXPECT_LE(sizes.query_text, size_t{1} << 20);
  EXPECT_LT(sizes.programs, 105U);
  EXPECT_EQ(last->broken(), nullptr) << "what is forgotten by the cache goes on working for those who have it";
}

TEST_F(QueryCacheBounds, AttributesThatWereComparedOnceAreNotKept) {
  for (int i = 0; i < 1000; ++i) cache_.column("d/a" + std::to_string(i));
  EXPECT_LE(cache_.sizes().columns, 256U);
}

}  // namespace
}  // namespace heddle::allocator
