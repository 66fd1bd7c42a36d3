#include "guard/broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "guard/files.h"
#include "guard/layout.h"
#include "guard/ledger.h"
#include "guard/share_broker.h"

namespace heddle::guard {
namespace {

constexpr int64_t kNow = 5000000000;

TenantView view(const char* id, double share, bool active) {
  return {id, share, true, active ? kNow - 1000 : kNow - 1000000000, 0, -1};
}

TEST(CardBroker, LendsWhatIsIdleInProportion) {
  struct Case {
    const char* name;
    std::vector<TenantView> tenants;
    std::vector<double> rates;
  };
  TenantView proud = view("a", 0.2, true);
  proud.may_borrow = false;
  const Case cases[] = {
      {"nobody asks", {view("a", 0.3, false), view("b", 0.7, false)}, {0.3, 0.7}},
      {"one asks", {view("a", 0.3, true), view("b", 0.7, false)}, {1, 0.7}},
      {"both ask", {view("a", 0.3, true), view("b", 0.7, true)}, {0.3, 0.7}},
      {"two of three", {view("a", 0.1, true), view("b", 0.3, true), view("c", 0.6, false)}, {0.25, 0.75, 0.6}},
      {"one that does not borrow", {proud, view("b", 0.2, true)}, {0.2, 0.5}},
  };
  for (const Case& c : cases) {
    CardBroker broker;
    const auto hints = broker.tick(kNow, c.tenants);
    ASSERT_EQ(hints.size(), c.rates.size()) << c.name;
    for (size_t i = 0; i < hints.size(); ++i) {
      EXPECT_DOUBLE_EQ(hints[i].rate, c.rates[i]) << c.name << " " << i;
      EXPECT_DOUBLE_EQ(hints[i].charge, 1) << c.name;
    }
  }
}

// A tenant whose intervals were twice as long as its time on the card comes to be charged half of them.
TEST(CardBroker, LearnsFromTheVendorWhatAnIntervalIsWorth) {
  CardBroker broker;
  int64_t now = kNow;
  double charge = 1;
  TenantView a = view("a", 0.5, true);
  TenantView b = view("b", 0.5, true);
  a.vendor_ns = b.vendor_ns = 0;
  for (int i = 0; i < 40; ++i) {
    now += CardBroker::kAudit;
    a.want_ns = b.want_ns = now;
    a.vendor_ns += 200000000;
    a.charged_ns += static_cast<int64_t>(400000000 * charge);
    charge = broker.tick(now, {a, b})[0].charge;
  }
  EXPECT_NEAR(charge, 0.5, 0.01);
  // Alone again, an interval is worth what it is long.
  b.want_ns = 0;
  now += CardBroker::kActive + 1000000000;
  a.want_ns = now;
  EXPECT_DOUBLE_EQ(broker.tick(now, {a, b})[0].charge, 1);
}

TEST(CardBroker, InventedNumbersStayWithinBounds) {
  CardBroker broker;
  TenantView liar = view("a", 0.5, true);
  TenantView other = view("b", 0.5, true);
  for (int i = 1; i < 100; ++i) {
    liar.charged_ns = i % 2 == 0 ? INT64_MAX / 4096 : 0;
    liar.vendor_ns = i % 3 == 0 ? 0 : int64_t{i} * 1000000000;
    other.vendor_ns = int64_t{i} * 100000000;
    other.charged_ns = other.vendor_ns;
    const int64_t now = kNow + i * CardBroker::kAudit;
    liar.want_ns = other.want_ns = now;
    const auto hints = broker.tick(now, {liar, other});
    EXPECT_GE(hints[0].charge, 0.01);
    EXPECT_LE(hints[0].charge, 1.5);
    EXPECT_DOUBLE_EQ(hints[1].rate, 0.5) << "and nobody else has less for it";
    EXPECT_NEAR(hints[1].charge, 1, 1e-9);
  }
}

TEST(Hint, IsOneWordAndGrowsOld) {
  Hint hint{};
  EXPECT_FALSE(unpack_hint(0, kNow, &hint));
  const uint64_t word = pack_hint({300000, 1250000}, kNow);
  EXPECT_TRUE(unpack_hint(word, kNow + 150000000, &hint));
  EXPECT_EQ(hint.rate_ppm, 300000u);
  EXPECT_EQ(hint.charge_ppm, 1250000u);
  EXPECT_FALSE(unpack_hint(word, kNow + 300000000, &hint));
  EXPECT_FALSE(unpack_hint(word, kNow - 300000000, &hint)) << "from a clock ahead of ours";
}

class ShareBrokerTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/heddle-broker-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_)); }

  BrokeredClaim claim(const std::string& id, int cores, bool strict = false) const {
    ClaimLimits limits{id, "gpu", {{"GPU-1", int64_t{1} << 30, cores, false, 0}}, {}, 0};
    limits.flags.strict_share = strict;
    const BrokeredClaim made{id, folder_ + "/" + id + ".limits", folder_ + "/" + id + ".usage"};
    EXPECT_TRUE(write_file_atomic(made.limits_file, encode_limits(limits).value(), 0444));
    EXPECT_TRUE(create_usage(made.usage_file, limits));
    return made;
  }
  static void ask(const BrokeredClaim& of, int64_t now) {
    const UniqueFd fd(::open(of.usage_file.c_str(), O_WRONLY | O_CLOEXEC));
    const off_t at = offsetof(heddle_guard_usage, devices) + offsetof(heddle_guard_device_usage, want_ns);
    EXPECT_EQ(::pwrite(fd.get(), &now, sizeof(now), at), static_cast<ssize_t>(sizeof(now)));
  }
  static double rate(const BrokeredClaim& of, int64_t now) {
    const std::string content = read_file(of.limits_file).value();
    uint64_t word = 0;
    std::memcpy(&word, content.data() + offsetof(heddle_guard_limits, hints), sizeof(word));
    Hint hint{};
    return unpack_hint(word, now, &hint) ? static_cast<double>(hint.rate_ppm) / 1e6 : -1;
  }
  std::string folder_;
};

TEST_F(ShareBrokerTest, TellsEachTenantInItsOwnFile) {
  const BrokeredClaim a = claim("a", 30);
  const BrokeredClaim b = claim("b", 70);
  const BrokeredClaim strict = claim("strict", 10, true);
  const BrokeredClaim whole = claim("whole", 100);
  ShareBroker broker;
  EXPECT_FALSE(broker.has_work());
  broker.set_claims({a, b, strict, whole, {"gone", folder_ + "/no", folder_ + "/no"}});
  ask(a, kNow);
  EXPECT_EQ(broker.tick(kNow, nullptr), 2);
  EXPECT_DOUBLE_EQ(rate(a, kNow), 1) << "the other is idle";
  ask(b, kNow + 10000000);
  broker.tick(kNow + 10000000, nullptr);
  EXPECT_DOUBLE_EQ(rate(a, kNow + 10000000), 0.3);
  EXPECT_DOUBLE_EQ(rate(b, kNow + 10000000), 0.7);
  EXPECT_DOUBLE_EQ(rate(strict, kNow), -1);
  EXPECT_DOUBLE_EQ(rate(whole, kNow), -1);
  broker.set_claims({});
  EXPECT_FALSE(broker.has_work());
}

// What a tenant does to its own file harms itself at the most.
TEST_F(ShareBrokerTest, HostileFilesHarmNobodyElse) {
  const BrokeredClaim good = claim("good", 40);
  const BrokeredClaim bad = claim("bad", 40);
  ShareBroker broker;
  broker.set_claims({good, bad});
  ask(good, kNow);
  ASSERT_EQ(::truncate(bad.usage_file.c_str(), 100), 0);
  EXPECT_EQ(broker.tick(kNow, nullptr), 1);
  ASSERT_EQ(::truncate(bad.usage_file.c_str(), int64_t{1} << 40), 0);
  EXPECT_GE(broker.tick(kNow, nullptr), 1);
  ASSERT_EQ(::unlink(bad.usage_file.c_str()), 0);
  ASSERT_EQ(::mkfifo(bad.usage_file.c_str(), 0666), 0);
  broker.set_claims({good});
  broker.set_claims({good, bad});
  EXPECT_GE(broker.tick(kNow, nullptr), 1);
  EXPECT_DOUBLE_EQ(rate(good, kNow), 1);
  ask(good, INT64_MIN);
  EXPECT_GE(broker.tick(kNow, nullptr), 1);
  EXPECT_DOUBLE_EQ(rate(good, kNow), 0.4);
}

}  // namespace
}  // namespace heddle::guard
