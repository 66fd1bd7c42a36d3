#include "agent/lending.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/file.h"
#include "base/unique_fd.h"
#include "guard/files.h"
#include "guard/layout.h"
#include "guard/ledger.h"

namespace heddle::agent {
namespace {

LentClaim claim(const std::string& id, std::vector<std::string> cards, std::vector<std::string> owners) {
  return {{id, "/" + id + "/limits", "/" + id + "/usage"}, std::move(cards), std::move(owners)};
}

std::optional<std::string> owner_of(int64_t pid) {
  if (pid < 10) return std::nullopt;
  return "pod-" + std::to_string(pid / 10);
}

TEST(ClaimTimes, AddsUpTheProcessesOfAClaim) {
  ClaimTimes times;
  const std::vector<LentClaim> claims = {claim("a", {"GPU-1", "GPU-2"}, {"pod-1", "pod-2"}),
                                         claim("b", {"GPU-1"}, {"pod-3"})};
  EXPECT_EQ(times.of("a", "GPU-1").busy_ns, -1);
  times.add({{"GPU-1", {{10, 100}, {11, 50}, {20, 7}, {30, 1000}, {40, 5}, {3, 5}}}}, claims, owner_of, 1000);
  EXPECT_EQ(times.of("a", "GPU-1").busy_ns, 157);
  EXPECT_EQ(times.of("a", "GPU-1").at_ns, 1000);
  EXPECT_EQ(times.of("b", "GPU-1").busy_ns, 1000);
  EXPECT_EQ(times.of("a", "GPU-2").busy_ns, -1) << "its card said nothing";
  EXPECT_EQ(times.busiest("a", "GPU-1"), 10);
  times.add({{"GPU-1", {{30, 1}}}, {"GPU-2", {}}}, claims, owner_of, 2000);
  EXPECT_EQ(times.busiest("a", "GPU-1"), 0);
  EXPECT_EQ(times.busiest("b", "GPU-1"), 30);
  EXPECT_EQ(times.of("a", "GPU-1").busy_ns, 157) << "it did not run";
  EXPECT_EQ(times.of("a", "GPU-1").at_ns, 2000);
  EXPECT_EQ(times.of("b", "GPU-1").busy_ns, 1001);
  EXPECT_EQ(times.of("a", "GPU-2").busy_ns, 0);
}

TEST(ClaimTimes, SaysNothingWhereItIsNotKnown) {
  ClaimTimes times;
  const std::vector<LentClaim> claims = {claim("a", {"GPU-1"}, {"pod-1"}), claim("b", {"GPU-1", "GPU-2"}, {"pod-1"}),
                                         claim("c", {"GPU-1"}, {"pod-2"})};
  times.add({{"GPU-1", {{10, 100}, {20, 3}}}, {"GPU-2", {{10, 4}}}}, claims, owner_of, 1);
  EXPECT_EQ(times.of("a", "GPU-1").busy_ns, -1) << "a pod with two claims on a card";
  EXPECT_EQ(times.of("b", "GPU-1").busy_ns, -1);
  EXPECT_EQ(times.of("b", "GPU-2").busy_ns, 4);
  EXPECT_EQ(times.of("c", "GPU-1").busy_ns, 3);
  times.add({{"GPU-2", {}}}, claims, owner_of, 2);
  EXPECT_EQ(times.of("c", "GPU-1").busy_ns, -1) << "the card has stopped saying";
  EXPECT_EQ(times.of("b", "GPU-2").busy_ns, 4);
}

// Real threads and files. Each step waits for what it expects; nothing depends on how long that takes.
class LendingTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/heddle-lending-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_)); }

  LentClaim make(const std::string& id, int cores) const {
    const guard::ClaimLimits limits{id, "gpu", {{"GPU-1", int64_t{1} << 30, cores, false, 0}}, {}, 0, 0};
    LentClaim made{{id, folder_ + "/" + id + ".limits", folder_ + "/" + id + ".usage"}, {"GPU-1"}, {"pod-1"}};
    EXPECT_TRUE(write_file_atomic(made.files.limits_file, guard::encode_limits(limits).value(), 0644));
    EXPECT_TRUE(guard::create_usage(made.files.usage_file, limits));
    return made;
  }
  void ask(const LentClaim& of) const {
    const int64_t now = clock_.monotonic_nanos();
    const UniqueFd fd(::open(of.files.usage_file.c_str(), O_WRONLY | O_CLOEXEC));
    const off_t at = offsetof(heddle_guard_usage, devices) + offsetof(heddle_guard_device_usage, want_ns);
    EXPECT_EQ(::pwrite(fd.get(), &now, sizeof(now), at), static_cast<ssize_t>(sizeof(now)));
  }
  // Millionths; -1: nothing that counts was said.
  [[nodiscard]] int64_t rate(const LentClaim& of) const {
    const std::string content = read_file(of.files.limits_file).value();
    uint64_t word = 0;
    std::memcpy(&word, content.data() + offsetof(heddle_guard_limits, hints), sizeof(word));
    guard::Hint hint{};
    return guard::unpack_hint(word, clock_.monotonic_nanos(), &hint) ? static_cast<int64_t>(hint.rate_ppm) : -1;
  }

  SystemClock clock_;
  std::string folder_;
};

TEST_F(LendingTest, StartsAndEndsWithTheClaims) {
  const LentClaim a = make("a", 30);
  const LentClaim b = make("b", 50);
  std::mutex mutex;
  std::vector<LentClaim> claims = {a};
  std::atomic<int> asked = 0;
  LendingPorts ports;
  ports.claims = [&] {
    const std::lock_guard lock(mutex);
    return claims;
  };
  ports.times = [&]() -> Result<vendors::TimesReport> {
    ++asked;
    return fail(Code::kUnavailable, "the vendor does not answer");
  };
  ports.owner_of = owner_of;
  const auto give = [&](std::vector<LentClaim> now) {
    const std::lock_guard lock(mutex);
    claims = std::move(now);
  };
  {
    const Lending lending(ports, clock_);
    give({a, b});
    while (rate(a) != 800000) ask(a);
    while (asked == 0) ask(a);
    while (rate(a) != 300000 || rate(b) != 500000) {
      ask(a);
      ask(b);
    }
    give({b});
    while (rate(a) != -1) ask(a);
  }
  // And again, as after a restart.
  give({a, b});
  const Lending again(ports, clock_);
  while (rate(a) != 800000) ask(a);
}

// One that uses the whole card by the vendor's account while its own file says nothing at all. What is lent is no
// overuse, and that nothing is lent does not mean that nobody looks.
TEST_F(LendingTest, FindsWhoIsBeyondItsShareWhateverItWrites) {
  for (const LendingMode mode : {LendingMode::kLend, LendingMode::kWatch}) {
    LentClaim liar = make("liar", 30);
    LentClaim lent = make("lent", 30);
    LentClaim idle = make("idle", 40);
    liar.shares = {{"GPU-1", {0.3, false}}};
    lent.shares = {{"GPU-1", {0.3, false}}};
    lent.owners = {"pod-2"};
    idle.owners = {"pod-3"};
    std::mutex mutex;
    std::vector<Overuse> found;
    int64_t last = clock_.monotonic_nanos();
    LendingPorts ports;
    ports.claims = [&] { return std::vector<LentClaim>{liar, lent, idle}; };
    ports.times = [&]() -> Result<vendors::TimesReport> {
      const int64_t now = clock_.monotonic_nanos();
      const int64_t time = now - last;
      last = now;
      return vendors::TimesReport{{"GPU-1", {{10, time * 9 / 10}, {20, time * 7 / 10}}}};
    };
    ports.owner_of = owner_of;
    ports.overuse = [&](const std::vector<Overuse>& now) {
      const std::lock_guard lock(mutex);
      if (!now.empty()) found = now;
    };
    const Lending lending(ports, clock_, mode);
    const size_t expected = mode == LendingMode::kLend ? 1 : 2;
    for (bool done = false; !done;) {
      ask(lent);
      const std::lock_guard lock(mutex);
      done = found.size() == expected;
    }
    const std::lock_guard lock(mutex);
    EXPECT_EQ(found[0].claim, "liar");
    EXPECT_EQ(found[0].pid, 10);
    EXPECT_NEAR(found[0].used, 0.9, 0.05);
    EXPECT_NEAR(found[0].allowed, 0.3, 0.01);
    EXPECT_EQ(rate(liar), mode == LendingMode::kLend ? 300000 : -1) << "it never asked";
  }
}

}  // namespace
}  // namespace heddle::agent
