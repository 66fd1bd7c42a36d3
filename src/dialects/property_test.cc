// Random pods over every family of the catalogue, with odd and extreme quantities: whatever is written, nothing wraps,
// no request is lost, amounts are kept, and a second pass changes nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "base/random.h"
#include "dialects/claim_form.h"
#include "dialects/testing.h"

namespace heddle::dialects::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kOdd[] = {"1e3",
                                "0.5",
                                "16Gi",
                                "-1",
                                "",
                                "9223372036854775807",
                                "9223372036854775808",
                                "-9223372036854775808",
                                "1e40",
                                "2147483647",
                                "2147483648",
                                "100m",
                                "1000m",
                                "7k",
                                "0x10",
                                "1,5",
                                " 1",
                                "+1",
                                "1.0",
                                "one",
                                "null"};

class Pods {
 public:
  explicit Pods(uint64_t seed) : random_(seed) {
    for (const catalog::RequestVendor& vendor : rules().vendors()) {
      for (const catalog::Family& family : vendor.families) families_.push_back(&family);
    }
  }

  // Mostly numbers that could be meant.
  std::string value(std::initializer_list<int64_t> plain) {
    if (random_.below(12) == 0) return kOdd[random_.below(std::size(kOdd))];
    return std::to_string(*(plain.begin() + random_.below(plain.size())));
  }

  Texts limits() {
    Texts out = {{"cpu", "1"}, {"memory", "1Gi"}, {"example.com/other", "3"}};
    const catalog::Family& family = *families_[random_.below(families_.size())];
    if (!family.count.empty() && random_.below(6) != 0) out[family.count.front()] = value({0, 1, 1, 1, 2, 4});
    if (family.memory && random_.below(2) == 0)
      out[family.memory->keys.front()] = value({0, 1, 2, 8, 32, 96, 3000, 24577, 2147483647});
    if (!family.percent.empty() && random_.below(4) == 0) out[family.percent.front()] = value({0, 1, 50, 100, 101});
    if (family.cores && random_.below(3) == 0) out[family.cores->keys.front()] = value({0, 1, 16, 50, 100, 101});
    return out;
  }

  uint64_t below(uint64_t n) { return random_.below(n); }

 private:
  SeededRandom random_;
  std::vector<const catalog::Family*> families_;
};

// What of `limits` is a count above 0 of a family, or an amount without a count.
bool asks(const Texts& limits) {
  return std::any_of(limits.begin(), limits.end(), [](const auto& entry) {
    const auto owner = rules().owner(entry.first);
    const auto quantity = Quantity::parse(entry.second);
    return owner.family != nullptr && quantity && quantity->sign() > 0;
  });
}

void check_amounts(const Texts& limits, const ClaimForm& form) {
  ASSERT_EQ(form.asks.size(), 1U);  // one family
  const Ask& ask = form.asks.front();
  for (const auto& [key, text] : limits) {
    const catalog::Family* family = rules().owner(key).family;
    if (family == nullptr) continue;
    const int64_t value = Quantity::parse(text)->value().value_or(-1);
    const bool plain = family->units_per_device == 1 && family->devices_per_module == 1 && !family->count_is_slices;
    if (!family->count.empty() && key == family->count.front() && plain) {
      EXPECT_EQ(ask.count, value);
    }
    const bool exact = family->memory && family->memory->steps.empty() && !family->hard_split &&
                       !family->memory->suffix_is_bytes && ask.kind == Ask::Kind::kShare;
    if (exact && key == family->memory->keys.front()) {
      EXPECT_EQ(ask.memory_mib, value * (family->memory->unit_bytes >> 20));
    }
    if (!family->percent.empty() && key == family->percent.front()) {
      EXPECT_EQ(ask.percent, value == 100 ? 0 : value);
    }
  }
  EXPECT_GE(ask.count, 1);
  EXPECT_LE(ask.count, kMaxDevices);
  EXPECT_GE(ask.memory_mib, 0);
  EXPECT_LE(ask.memory_mib, kMaxUnits);
}

TEST(Property, NothingIsLostRoundedOrWrapped) {
  Pods pods(20261129);
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    const Texts limits = pods.limits();
    const Json pod = Json::parse(pod_json(limits));
    const auto first = translate_pod(rules(), pod.dump(), "0123456789");
    ASSERT_TRUE(first) << pod.dump();
    if (!first->refusals.empty()) {
      for (const Refusal& refusal : first->refusals) {
        EXPECT_NE(refusal.message.find("container main"), std::string::npos) << refusal.message;
        EXPECT_NE(refusal.field.find("resources."), std::string::npos) << refusal.field;
      }
      continue;
    }
    ASSERT_EQ(first->requests.size(), asks(limits) ? 1U : 0U) << pod.dump();
    const Json once = first->changed ? pod.patch(Json::parse(first->json_patch)) : pod;
    const Json& left = once["spec"]["containers"][0]["resources"]["limits"];
    for (const char* kept : {"cpu", "memory", "example.com/other"}) EXPECT_EQ(left[kept], limits.at(kept));
    if (first->requests.empty()) continue;
    ++accepted;
    EXPECT_EQ(left.size(), 3U) << once.dump();
    const auto form = read_claim_form(first->requests[0].spec);
    ASSERT_TRUE(form) << once.dump();
    check_amounts(limits, *form);
    EXPECT_TRUE(parse_requests(requests_json(first->requests)));
    const auto second = translate_pod(rules(), once.dump(), "ffffffffff");
    ASSERT_TRUE(second && second->refusals.empty());
    EXPECT_FALSE(second->changed) << once.dump();
  }
  EXPECT_GT(accepted, 1250);
}

// Containers do not change each other's claims, whatever their dialects.
TEST(Property, ContainersAddUp) {
  Pods pods(7);
  for (int round = 0; round < 2000; ++round) {
    Json pod = Json::parse(pod_json({}));
    pod["spec"]["containers"] = Json::array();
    std::vector<std::string> alone;
    const size_t count = 1 + pods.below(6);
    bool refused = false;
    for (size_t i = 0; i < count; ++i) {
      const Texts limits = pods.limits();
      Json container = Json::object({{"name", fmt::format("c{}", i)}});
      container["resources"]["limits"] = limits;
      Json single = pod;
      single["spec"]["containers"] = Json::array();
      single["spec"]["containers"].push_back(container);
      const auto one = translate_pod(rules(), single.dump(), "0123456789");
      ASSERT_TRUE(one);
      refused = refused || !one->refusals.empty();
      for (const ContainerRequest& request : one->requests) alone.push_back(requests_json({request}));
      pod["spec"]["containers"].push_back(std::move(container));
    }
    const auto together = translate_pod(rules(), pod.dump(), "0123456789");
    ASSERT_TRUE(together);
    EXPECT_EQ(!together->refusals.empty(), refused) << pod.dump();
    if (refused) continue;
    ASSERT_EQ(together->requests.size(), alone.size()) << pod.dump();
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(requests_json({together->requests[i]}), alone[i]);
  }
}

}  // namespace
}  // namespace heddle::dialects::testing
