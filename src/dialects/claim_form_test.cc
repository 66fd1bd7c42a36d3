#include "dialects/claim_form.h"

#include <gtest/gtest.h>

#include "codec/codec.h"

namespace heddle::dialects {
namespace {

Ask share(int64_t count, int64_t memory_mib, int64_t percent, int64_t cores) {
  Ask ask;
  ask.vendor = "nvidia";
  ask.kind = Ask::Kind::kShare;
  ask.count = count;
  ask.memory_mib = memory_mib;
  ask.percent = percent;
  ask.cores = cores;
  return ask;
}

ClaimForm form(std::vector<Ask> asks, bool numa = false) {
  return {std::move(asks), numa};
}

Ask whole(const std::string& name, const std::string& vendor, int64_t count) {
  Ask ask;
  ask.name = name;
  ask.vendor = vendor;
  ask.count = count;
  return ask;
}

TEST(ClaimForm, ThereAndBack) {
  Ask partition = whole("mig", "nvidia", 2);
  partition.kind = Ask::Kind::kPartition;
  partition.different_cards = true;
  partition.selectors.push_back({Selector::Op::kEquals, "profile", {"1g.5gb"}, "", ""});
  Ask chosen = share(2, 1000, 0, 0);
  chosen.name = "two";
  chosen.selectors.push_back({Selector::Op::kContainsAny, "model", {"a100", "h100"}, "", ""});
  chosen.selectors.push_back({Selector::Op::kNotIn, "uuid", {"GPU-1"}, "", ""});
  Ask sized = whole("npu", "ascend", 1);
  sized.kind = Ask::Kind::kTemplate;
  sized.memory_mib = 8192;
  sized.selectors.push_back({Selector::Op::kIn, "model", {"910B4"}, "", ""});
  sized.selectors.push_back({Selector::Op::kEquals, "profile", {"vir05_1c_8g"}, "vir05_1c_8g", ""});
  Ask low = share(1, 0, 50, 0);
  low.gives_way = true;
  Ask lower = share(1, 3000, 0, 30);
  lower.gives_way = true;
  const ClaimForm forms[] = {form({low}),
                             form({lower}),
                             form({whole("gpu", "nvidia", 1)}),
                             form({whole("device", "", 32)}),
                             form({share(1, 3000, 0, 30)}),
                             form({share(3, 0, 50, 10)}, true),
                             form({share(1, 0, 0, 25)}),
                             form({sized}),
                             form({share(1, 500, 0, 100), whole("dcu", "hygon", 2), partition, chosen})};
  for (const ClaimForm& one : forms) {
    const model::ClaimSpec spec = claim_spec(one);
    const auto back = read_claim_form(spec);
    ASSERT_TRUE(back.has_value()) << codec::claim_spec_json(spec);
    EXPECT_EQ(*back, one);
    // Through the wire as well.
    EXPECT_EQ(codec::parse_claim_spec(codec::claim_spec_json(spec)).value(), spec);
  }
}

TEST(ClaimForm, WhatItMeans) {
  const model::ClaimSpec spec = claim_spec(form({share(2, 3000, 0, 30)}, true));
  ASSERT_EQ(spec.requests.size(), 1U);
  EXPECT_EQ(spec.requests[0].exactly->device_class, "heddle-nvidia");
  EXPECT_EQ(spec.requests[0].exactly->capacity.at("memory").value(), int64_t{3000} << 20);
  ASSERT_EQ(spec.constraints.size(), 2U);
  EXPECT_EQ(spec.constraints[0].distinct_attribute, "accelerator.heddle.dev/uuid");
  EXPECT_EQ(spec.constraints[1].match_attribute, "resource.kubernetes.io/numaNode");
  const model::ClaimSpec card = claim_spec(form({whole("gpu", "amd", 2)}));
  EXPECT_TRUE(card.requests[0].exactly->capacity.empty());
  EXPECT_TRUE(card.constraints.empty());
}

// Pods that the webhook of 0.1 let in may still wait when the controller is replaced.
TEST(ClaimForm, ARequestOfTheFirstVersionIsRead) {
  model::ClaimSpec spec = claim_spec(form({share(2, 1000, 0, 0)}));
  spec.requests[0].exactly->selectors.clear();
  const auto back = read_claim_form(spec);
  ASSERT_TRUE(back.has_value());
  EXPECT_FALSE(back->asks[0].says_kind);
  EXPECT_EQ(claim_spec(*back), spec);
}

TEST(ClaimForm, AnythingElseIsRefused) {
  const auto refused = [](const ClaimForm& one) { return !read_claim_form(claim_spec(one)).has_value(); };
  EXPECT_TRUE(refused({}));
  EXPECT_FALSE(refused(form({whole("gpu", "acme", 1)})));  // of an administrator's catalogue
  EXPECT_TRUE(refused(form({whole("gpu", "Acme", 1)})));
  EXPECT_TRUE(refused(form({whole("gpu", "-", 1)})));
  EXPECT_TRUE(refused(form({whole("gpu", "nvidia", 0)})));
  EXPECT_TRUE(refused(form({whole("gpu", "nvidia", 33)})));
  EXPECT_TRUE(refused(form({whole("a", "nvidia", 20), whole("b", "nvidia", 20)})));
  EXPECT_TRUE(refused(form({whole("gpu", "nvidia", 1), whole("gpu", "nvidia", 1)})));
  EXPECT_TRUE(refused(form({whole("GPU", "nvidia", 1)})));
  EXPECT_TRUE(refused(form({share(1, 10, 50, 0)})));
  EXPECT_TRUE(refused(form({share(1, 0, 100, 0)})));
  EXPECT_TRUE(refused(form({share(1, 0, 0, 101)})));
  Ask any_share = share(1, 10, 0, 0);
  any_share.vendor.clear();
  EXPECT_TRUE(refused(form({any_share})));

  Ask sized = whole("npu", "ascend", 1);
  sized.kind = Ask::Kind::kTemplate;
  sized.memory_mib = 8192;
  sized.selectors.push_back({Selector::Op::kIn, "model", {"910B4"}, "", ""});
  EXPECT_TRUE(refused(form({sized})));  // of no template
  sized.selectors.push_back({Selector::Op::kEquals, "profile", {"vir05_1c_8g"}, "", ""});
  EXPECT_FALSE(refused(form({sized})));
  sized.memory_mib = 0;
  EXPECT_TRUE(refused(form({sized})));  // of no size

  Ask odd = whole("gpu", "nvidia", 1);
  odd.selectors.push_back({Selector::Op::kEquals, "generation2", {"1"}, "", ""});
  EXPECT_FALSE(refused(form({odd})));  // only narrows
  for (const char* attribute : {"", "2nd", "a b", "a\"b", "x || true", "averyverylongnameofanattributeofx"}) {
    odd.selectors.back().attribute = attribute;
    EXPECT_TRUE(refused(form({odd}))) << attribute;
  }

  model::ClaimSpec spec = claim_spec(form({share(2, 1000, 0, 0)}));
  spec.constraints.clear();
  EXPECT_FALSE(read_claim_form(spec).has_value());
  spec = claim_spec(form({share(1, 1000, 0, 0)}));
  spec.requests[0].exactly->selectors.emplace_back("true");
  EXPECT_FALSE(read_claim_form(spec).has_value());
  spec = claim_spec(form({whole("gpu", "amd", 1)}));
  spec.requests[0].exactly->selectors.clear();
  EXPECT_FALSE(read_claim_form(spec).has_value());
}

}  // namespace
}  // namespace heddle::dialects
