#include "guard/broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "guard/files.h"
#include "guard/layout.h"
#include "guard/ledger.h"
#include "guard/share_broker.h"

namespace heddle::guard {
namespace {

constexpr int64_t kNow = 5000000000;

TenantView view(const char* id, double share, bool active) {
  return {id, share, true, active ? kNow - 1000 : kNow - 1000000000, 0, -1, 0, 0};
}

TEST(CardBroker, WhoGivesWayHasWhatTheOthersLeave) {
  const auto low = [](bool active) {
    TenantView one = view("low", 0, active);
    one.may_borrow = false;
    one.gives_way = true;
    one.priority = 1;
    return one;
  };
  const auto unlimited = [](int priority, bool active) {
    TenantView one = view("unlimited", 0, active);
    one.may_borrow = false;
    one.unlimited = true;
    one.priority = priority;
    return one;
  };
  TenantView equal = view("equal", 0.3, true);
  equal.priority = 1;
  const TenantView online = view("online", 0.3, true);
  const TenantView resting = view("online", 0.3, false);
  struct Case {
    const char* name;
    std::vector<TenantView> tenants;
    std::vector<double> rates;
  };
  const Case cases[] = {
      {"alone", {low(true)}, {1}},
      {"while a share is used", {low(true), online}, {0.7, 0.3}},
      {"while a share rests", {low(true), resting}, {1, 0.3}},
      {"while a better one has no limit", {low(true), unlimited(0, true)}, {0, 0}},
      {"while that rests", {low(true), unlimited(0, false)}, {1, 0}},
      {"beside an equal", {low(true), unlimited(1, true)}, {1, 0}},
      {"an equal's share counts once a better one is there", {low(true), online, equal}, {0.4, 0.3, 0.3}},
      {"what is lent to others counts", {low(true), online, view("idle", 0.5, false)}, {0.2, 0.8, 0.5}},
      {"several", {low(true), low(true), online}, {0.35, 0.35, 0.3}},
      {"one that has not asked yet", {low(true), low(false), online}, {0.7, 0.35, 0.3}},
      {"too little is nothing", {low(true), view("online", 0.96, true)}, {0, 0.96}},
  };
  for (const Case& c : cases) {
    CardBroker broker;
    const auto hints = broker.tick(kNow, c.tenants);
    ASSERT_EQ(hints.size(), c.rates.size()) << c.name;
    for (size_t i = 0; i < hints.size(); ++i) {
      EXPECT_NEAR(hints[i].rate, c.rates[i], 1e-9) << c.name << " " << i;
    }
  }
}

TEST(CardBroker, LendsWhatIsIdleInProportion) {
  struct Case {
    const char* name;
    std::vector<TenantView> tenants;
    std::vector<double> rates;
  };
  TenantView proud = view("a", 0.2, true);
  proud.may_borrow = false;
  TenantView online = view("online", 0.3, true);
  TenantView batch = view("batch", 0.3, true);
  batch.priority = 1;
  TenantView resting = view("online", 0.3, false);
  const Case cases[] = {
      {"nobody asks", {view("a", 0.3, false), view("b", 0.7, false)}, {0.3, 0.7}},
      {"one asks", {view("a", 0.3, true), view("b", 0.7, false)}, {1, 0.7}},
      {"both ask", {view("a", 0.3, true), view("b", 0.7, true)}, {0.3, 0.7}},
      {"two of three", {view("a", 0.1, true), view("b", 0.3, true), view("c", 0.6, false)}, {0.25, 0.75, 0.6}},
      {"one that does not borrow", {proud, view("b", 0.2, true), view("c", 0.4, false)}, {0.2, 0.6, 0.4}},
      {"what was granted to nobody", {view("a", 0.3, true), view("b", 0.3, false)}, {0.6, 0.3}},
      {"alone", {view("a", 0.3, true)}, {0.3}},
      {"more than the card", {view("a", 0.8, true), view("b", 0.8, false)}, {1, 0.8}},
      {"the better priority first", {online, batch, view("c", 0.4, false)}, {0.7, 0.3, 0.4}},
      {"the worse one while the better rests", {resting, batch, view("c", 0.4, false)}, {0.3, 1, 0.4}},
  };
  for (const Case& c : cases) {
    CardBroker broker;
    const auto hints = broker.tick(kNow, c.tenants);
    ASSERT_EQ(hints.size(), c.rates.size()) << c.name;
    for (size_t i = 0; i < hints.size(); ++i) {
      EXPECT_NEAR(hints[i].rate, c.rates[i], 1e-9) << c.name << " " << i;
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
    a.want_ns = b.want_ns = a.vendor_at_ns = b.vendor_at_ns = now;
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

// The vendor tells less often than the broker ticks, and late: both accounts are compared over the same time.
// Its limiter is honest, what it writes of its charges is not: without the vendor's word for it each interval would
// count for next to nothing, and it would have the card.
TEST(CardBroker, NobodyHasMoreForALie) {
  for (const double lie : {0.0, 0.5, 3.0, 1000.0}) {
    CardBroker broker;
    TenantView liar = view("liar", 0.3, true);
    TenantView other = view("other", 0.7, true);
    double factor = 1;
    double late = 0;
    for (int i = 1; i <= 200; ++i) {
      const int64_t now = kNow + i * CardBroker::kAudit;
      const double used = std::min(1.0, 0.3 / factor);
      const auto busy = static_cast<int64_t>(used * static_cast<double>(CardBroker::kAudit));
      liar.vendor_ns = std::max<int64_t>(liar.vendor_ns, 0) + busy;
      liar.charged_ns += static_cast<int64_t>(lie * static_cast<double>(busy));
      other.vendor_ns = other.charged_ns = int64_t{i} * CardBroker::kAudit / 2;
      liar.want_ns = other.want_ns = liar.vendor_at_ns = other.vendor_at_ns = now;
      factor = broker.tick(now, {liar, other})[0].charge;
      if (i > 20) late += used / 180;
    }
    EXPECT_LE(late, 0.3 + 0.05) << "charges written " << lie << " times";
  }
}

TEST(CardBroker, SilenceOfTheVendorIsNoNews) {
  CardBroker broker;
  TenantView a = view("a", 0.5, true);
  TenantView b = view("b", 0.5, true);
  a.vendor_ns = b.vendor_ns = 0;
  for (int i = 0; i < 400; ++i) {
    const int64_t now = kNow + i * CardBroker::kAudit / 5;
    a.want_ns = b.want_ns = now;
    a.charged_ns += 40000000;
    if (i % 11 == 0) {
      a.vendor_ns = a.charged_ns;
      a.vendor_at_ns = now;
    }
    EXPECT_NEAR(broker.tick(now, {a, b})[0].charge, 1, 1e-9) << i;
  }
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
    liar.want_ns = other.want_ns = liar.vendor_at_ns = other.vendor_at_ns = now;
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
  const TemporaryFolder folder_of_test_;
  const std::string folder_ = folder_of_test_.path();
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
  EXPECT_EQ(broker.tick(kNow, nullptr).written, 2);
  EXPECT_DOUBLE_EQ(rate(a, kNow), 1) << "the others are idle";
  ask(strict, kNow + 1);
  broker.tick(kNow + 1, nullptr);
  EXPECT_DOUBLE_EQ(rate(a, kNow), 1) << "of 110 % there is still a card left";
  ask(b, kNow + 10000000);
  broker.tick(kNow + 10000000, nullptr);
  EXPECT_DOUBLE_EQ(rate(a, kNow + 10000000), 0.3);
  EXPECT_DOUBLE_EQ(rate(b, kNow + 10000000), 0.7);
  EXPECT_DOUBLE_EQ(rate(strict, kNow), -1);
  EXPECT_DOUBLE_EQ(rate(whole, kNow), -1);
  broker.set_claims({});
  EXPECT_FALSE(broker.has_work());
}

// Who gives way has no say in it: neither by what it writes nor by what it does to its file.
TEST_F(ShareBrokerTest, GivingWayIsTold) {
  const auto without_share = [&](const char* id, int priority) {
    ClaimLimits limits{id, "gpu", {{"GPU-1", int64_t{1} << 30, 0, false, 0, -1, priority > 0}}, {}, 0, priority};
    const BrokeredClaim made{id, folder_ + "/" + id + ".limits", folder_ + "/" + id + ".usage"};
    EXPECT_TRUE(write_file_atomic(made.limits_file, encode_limits(limits).value(), 0444));
    EXPECT_TRUE(create_usage(made.usage_file, limits));
    return made;
  };
  const BrokeredClaim online = without_share("online", 0);
  const BrokeredClaim low = without_share("low", 1);
  const BrokeredClaim share = claim("share", 30);
  ShareBroker broker;
  broker.set_claims({online, without_share("more", 0)});
  EXPECT_FALSE(broker.has_work()) << "nobody gives way";
  broker.set_claims({online, share});
  EXPECT_FALSE(broker.has_work()) << "a tenant without a limit has nothing to lend";
  broker.set_claims({online, low, share});
  ask(low, kNow);
  EXPECT_EQ(broker.tick(kNow, nullptr).written, 2) << "the one without a limit is told nothing";
  EXPECT_DOUBLE_EQ(rate(low, kNow), 1);
  ask(share, kNow);
  broker.tick(kNow, nullptr);
  EXPECT_DOUBLE_EQ(rate(low, kNow), 0.7);
  ask(online, kNow);
  broker.tick(kNow, nullptr);
  EXPECT_DOUBLE_EQ(rate(low, kNow), 0);
  EXPECT_DOUBLE_EQ(rate(share, kNow), 0.3);
  ask(low, 0);
  ASSERT_EQ(::truncate(low.usage_file.c_str(), 100), 0);
  broker.tick(kNow, nullptr);
  EXPECT_DOUBLE_EQ(rate(low, kNow), 0);
  // One without a limit that damages its file gains nothing by it, and stops nobody.
  ASSERT_EQ(::truncate(online.usage_file.c_str(), 100), 0);
  broker.tick(kNow, nullptr);
  EXPECT_DOUBLE_EQ(rate(low, kNow), 0.7);
}

// Who asks is alone on its card, or with tenants whose files cannot be asked: it keeps its own share.
TEST_F(ShareBrokerTest, OnlyWhatIsKnownToBeIdleIsLent) {
  const BrokeredClaim a = claim("a", 30);
  ShareBroker broker;
  broker.set_claims({a});
  EXPECT_FALSE(broker.has_work()) << "one tenant";
  const BrokeredClaim strict = claim("strict", 30, true);
  broker.set_claims({strict, claim("more", 30, true)});
  EXPECT_FALSE(broker.has_work()) << "nobody to tell";
  broker.set_claims({a, strict});
  EXPECT_TRUE(broker.has_work());
  ask(a, kNow);
  EXPECT_EQ(broker.tick(kNow, nullptr).written, 1);
  EXPECT_DOUBLE_EQ(rate(a, kNow), 0.6) << "a strict tenant lends";
  ask(strict, kNow);
  broker.tick(kNow, nullptr);
  EXPECT_DOUBLE_EQ(rate(a, kNow), 0.3);
}

// The files of a claim that was ended and given again under its name are other files.
TEST_F(ShareBrokerTest, FilesMadeAnewAreOpenedAnew) {
  const BrokeredClaim a = claim("a", 30);
  const BrokeredClaim b = claim("b", 70);
  ShareBroker broker;
  broker.set_claims({a, b});
  ASSERT_TRUE(remove_file(a.limits_file));
  ASSERT_TRUE(remove_file(a.usage_file));
  claim("a", 20);
  broker.set_claims({a, b});
  ask(a, kNow);
  broker.tick(kNow, nullptr);
  EXPECT_DOUBLE_EQ(rate(a, kNow), 0.9);
}

// What a tenant does to its own file harms itself at the most.
TEST_F(ShareBrokerTest, HostileFilesHarmNobodyElse) {
  const BrokeredClaim good = claim("good", 40);
  const BrokeredClaim bad = claim("bad", 40);
  ShareBroker broker;
  broker.set_claims({good, bad});
  ask(good, kNow);
  EXPECT_TRUE(broker.tick(kNow, nullptr).active);
  EXPECT_DOUBLE_EQ(rate(good, kNow), 0.8);
  // Cut, grown, replaced, unreadable: it may be using its share, and the good one keeps its own.
  const auto expect_own_share = [&](const char* what) {
    broker.set_claims({good, bad});
    EXPECT_EQ(broker.tick(kNow, nullptr).written, 1) << what;
    EXPECT_DOUBLE_EQ(rate(good, kNow), 0.4) << what;
  };
  ASSERT_EQ(::truncate(bad.usage_file.c_str(), 100), 0);
  expect_own_share("cut");
  ASSERT_EQ(::unlink(bad.usage_file.c_str()), 0);
  expect_own_share("gone");
  ASSERT_EQ(::mkfifo(bad.usage_file.c_str(), 0666), 0);
  expect_own_share("a pipe");
  ASSERT_EQ(::unlink(bad.usage_file.c_str()), 0);
  ASSERT_EQ(::symlink("/dev/zero", bad.usage_file.c_str()), 0);
  expect_own_share("a link");
  ASSERT_EQ(::unlink(bad.usage_file.c_str()), 0);
  ASSERT_EQ(::mkdir(bad.usage_file.c_str(), 0777), 0);
  expect_own_share("a folder");
  ask(good, INT64_MIN);
  EXPECT_GE(broker.tick(kNow, nullptr).written, 1);
  EXPECT_DOUBLE_EQ(rate(good, kNow), 0.4);
}

}  // namespace
}  // namespace heddle::guard
