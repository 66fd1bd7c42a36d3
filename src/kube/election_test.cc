#include "kube/election.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace heddle::kube {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
const Time kWall{1'800'000'000 * kSecond};

LeaseOptions options_of(const std::string& identity) {
  LeaseOptions options;
  options.name_space = "ns";
  options.identity = identity;
  return options;
}

LeaseRecord held_by(const std::string& holder, const std::string& version) {
  return {holder, 15, "2026-11-29T18:00:00.000000Z", "2026-11-29T18:00:00.000000Z", 3, version};
}

// What the API server would answer to a write.
LeaseRecord stored(LeaseRecord record, const std::string& version) {
  record.resource_version = version;
  return record;
}

TEST(Election, TakesALeaseThatNobodyEverHeldAtOnce) {
  Election election(options_of("a"));
  EXPECT_EQ(election.next(0, kWall).step, Election::Step::kRead);
  election.saw(std::nullopt, 0);
  const auto action = election.next(0, kWall);
  ASSERT_EQ(action.step, Election::Step::kCreate);
  EXPECT_EQ(action.record.holder, "a");
  EXPECT_EQ(action.record.duration_seconds, 15);
  EXPECT_EQ(action.record.transitions, 0);
  election.wrote(stored(action.record, "1"), 1 * kSecond, 4 * kSecond);
  // Counted from before the write was sent, not from its answer.
  EXPECT_EQ(election.lead_until(), 11 * kSecond);
  const auto wait = election.next(4 * kSecond, kWall);
  EXPECT_EQ(wait.step, Election::Step::kWait);
  EXPECT_EQ(wait.wait, Duration::seconds(2));
  const auto renewal = election.next(6 * kSecond, kWall);
  EXPECT_EQ(renewal.step, Election::Step::kUpdate);
  EXPECT_EQ(renewal.record.resource_version, "1");
  EXPECT_EQ(renewal.record.transitions, 0);
}

TEST(Election, WaitsForTheHolderByItsOwnClock) {
  Election election(options_of("b"));
  election.saw(held_by("a", "1"), 100 * kSecond);
  EXPECT_EQ(election.next(100 * kSecond, kWall).step, Election::Step::kWait);
  EXPECT_EQ(election.next(102 * kSecond, kWall).step, Election::Step::kRead);
  election.saw(held_by("a", "2"), 110 * kSecond);  // renewed: counts anew
  EXPECT_EQ(election.next(129 * kSecond, kWall).step, Election::Step::kRead);
  election.saw(held_by("a", "2"), 129 * kSecond);
  EXPECT_EQ(election.next(129 * kSecond, kWall).wait, Duration::seconds(1));
  const auto action = election.next(130 * kSecond, kWall);  // 110 + 15 + 5
  ASSERT_EQ(action.step, Election::Step::kUpdate);
  EXPECT_EQ(action.record.resource_version, "2");
  EXPECT_EQ(action.record.transitions, 4);
  // Somebody was faster.
  election.failed(Code::kConflict, 130 * kSecond);
  EXPECT_EQ(election.next(130 * kSecond, kWall).step, Election::Step::kRead);
  election.saw(held_by("c", "3"), 130 * kSecond);
  EXPECT_EQ(election.next(149 * kSecond, kWall).step, Election::Step::kRead);
  EXPECT_EQ(election.lead_until(), INT64_MIN);
}

TEST(Election, AHolderWithALongerLeaseGetsItsTime) {
  Election election(options_of("b"));
  LeaseRecord record = held_by("a", "1");
  record.duration_seconds = 60;
  election.saw(record, 0);
  EXPECT_EQ(election.next(64 * kSecond, kWall).step, Election::Step::kRead);
  EXPECT_EQ(election.next(65 * kSecond, kWall).step, Election::Step::kUpdate);
}

TEST(Election, ALeaseGivenBackStillWaitsForWritesUnderWay) {
  Election election(options_of("b"));
  election.saw(held_by("", "7"), 0);
  EXPECT_EQ(election.next(kSecond, kWall).step, Election::Step::kWait);
  EXPECT_EQ(election.next(5 * kSecond, kWall).step, Election::Step::kUpdate);
}

TEST(Election, ADeletedLeaseDoesNotShortenTheWait) {
  Election election(options_of("b"));
  election.saw(held_by("a", "1"), 0);
  for (int64_t now = 2; now < 22; now += 2) {
    election.saw(std::nullopt, now * kSecond);
    EXPECT_EQ(election.next((now + 2) * kSecond - 1, kWall).step, Election::Step::kWait);
    EXPECT_EQ(election.next((now + 2) * kSecond, kWall).step,
              now == 20 ? Election::Step::kCreate : Election::Step::kRead);
  }
}

TEST(Election, ALeaderWhoseLeaseWasDeletedMakesItAnew) {
  Election election(options_of("a"));
  election.saw(std::nullopt, 0);
  election.wrote(stored(election.next(0, kWall).record, "1"), 0, 0);
  election.failed(Code::kNotFound, 2 * kSecond);
  EXPECT_EQ(election.next(2 * kSecond, kWall).step, Election::Step::kRead);
  election.saw(std::nullopt, 2 * kSecond);
  EXPECT_EQ(election.lead_until(), 10 * kSecond);
  EXPECT_EQ(election.next(2 * kSecond, kWall).step, Election::Step::kCreate);
}

TEST(Election, ARenewalThatFailsLeavesTheLeadAsItWas) {
  Election election(options_of("a"));
  election.saw(std::nullopt, 0);
  election.wrote(stored(election.next(0, kWall).record, "1"), 0, 0);
  election.failed(Code::kDeadlineExceeded, 5 * kSecond);
  EXPECT_EQ(election.lead_until(), 10 * kSecond);
  EXPECT_EQ(election.next(7 * kSecond, kWall).step, Election::Step::kRead);
  // It had taken effect: the record is ours, so it is confirmed at once.
  election.saw(held_by("a", "2"), 7 * kSecond);
  EXPECT_EQ(election.lead_until(), 10 * kSecond);
  const auto action = election.next(7 * kSecond, kWall);
  EXPECT_EQ(action.step, Election::Step::kUpdate);
  EXPECT_EQ(action.record.resource_version, "2");
}

TEST(Election, AnotherHolderEndsTheLeadAtOnce) {
  Election election(options_of("a"));
  election.saw(std::nullopt, 0);
  election.wrote(stored(election.next(0, kWall).record, "1"), 0, 0);
  election.saw(held_by("z", "9"), kSecond);
  EXPECT_EQ(election.lead_until(), INT64_MIN);
  EXPECT_FALSE(election.release(kWall));
}

TEST(Election, GivesBackOnlyItsOwn) {
  Election election(options_of("a"));
  EXPECT_FALSE(election.release(kWall));
  election.saw(std::nullopt, 0);
  election.wrote(stored(election.next(0, kWall).record, "1"), 0, 0);
  const auto record = election.release(kWall);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->holder, "");
  EXPECT_EQ(record->resource_version, "1");
}

TEST(Election, ARenewDeadlineBeyondTheLeaseIsCut) {
  LeaseOptions options = options_of("a");
  options.renew_deadline = Duration::seconds(15);
  EXPECT_LT(Election(options).options().renew_deadline, options.lease_duration);
}

TEST(LeaseJson, RoundTrip) {
  LeaseRecord record = held_by("a \"quoted\"", "12");
  const auto parsed = parse_lease(lease_json(options_of("a"), record));
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(*parsed, record);
  EXPECT_FALSE(parse_lease("{}"));
  EXPECT_FALSE(parse_lease("[1"));
  EXPECT_FALSE(parse_lease(R"({"metadata":{"name":"x"}})"));
  const auto bare = parse_lease(R"({"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":null}})");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->holder, "");
}

// Processes that stop at any moment, answers that are late or lost, writes that arrive late: whoever leads may have
// writes under way for write_timeout after its lead; nobody else may lead in that time.
class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {
    for (const char* name : {"a", "b", "c"}) processes_.push_back(Process{Election(options_of(name)), {}, 0, {}});
  }

  void tick(int64_t now) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      Process& process = processes_[i];
      apply(process, now);
      if (random_.below(400) == 0) process.stopped_until = now + static_cast<int64_t>(random_.below(60)) * kSecond;
      if (random_.below(3000) == 0) record_.reset();  // somebody deletes the Lease
      if (now < process.stopped_until) continue;
      take_answer(process, now);
      if (!process.call) begin(process, now);
      if (now < process.election.lead_until()) note_leader(i, now);
    }
  }
  [[nodiscard]] int leads() const { return leads_; }

 private:
  struct Call {
    Election::Action action;
    int64_t sent_at = 0;
    int64_t applies_at = 0;
    int64_t answers_at = 0;
    int64_t times_out_at = 0;
    bool applied = false;
    bool ok = false;
    bool gave_up = false;
    Code code = Code::kInternal;
    std::optional<LeaseRecord> answer;
  };
  struct Process {
    Election election;
    std::optional<Call> call;
    int64_t stopped_until = 0;
    std::vector<Call> orphans;  // given up by the process, still on their way to the server
  };

  void begin(Process& process, int64_t now) {
    const auto action = process.election.next(now, Time{kWall.unix_nanos + now});
    if (action.step == Election::Step::kWait) return;
    Call call;
    call.action = action;
    call.sent_at = now;
    const bool slow = random_.below(10) == 0;
    call.applies_at = now + static_cast<int64_t>(random_.below(slow ? 40 : 3)) * kSecond / 4;
    call.answers_at = call.applies_at + static_cast<int64_t>(random_.below(slow ? 40 : 3)) * kSecond / 4;
    call.times_out_at = now + 10 * kSecond / 3;
    process.call = call;
  }

  void apply(Process& process, int64_t now) {
    if (process.call) apply_call(*process.call, now);
    for (Call& orphan : process.orphans) apply_call(orphan, now);
    std::erase_if(process.orphans, [](const Call& call) { return call.applied; });
  }

  void apply_call(Call& call, int64_t now) {
    if (call.applied || now < call.applies_at) return;
    call.applied = true;
    LeaseRecord record = call.action.record;
    if (call.action.step == Election::Step::kRead) {
      call.ok = record_.has_value();
      call.code = Code::kNotFound;
      call.answer = record_;
      return;
    }
    if (call.action.step == Election::Step::kCreate) {
      call.code = Code::kAlreadyExists;
      if (record_) return;
    } else {
      call.code = record_ ? Code::kConflict : Code::kNotFound;
      if (!record_ || record_->resource_version != record.resource_version) return;
    }
    record.resource_version = std::to_string(++version_);
    record_ = record;
    call.ok = true;
    call.answer = record;
  }

  void take_answer(Process& process, int64_t now) {
    if (!process.call) return;
    Call& call = *process.call;
    if (call.applied && now >= call.answers_at && call.answers_at <= call.times_out_at) {
      const Call done = call;
      process.call.reset();
      if (done.action.step == Election::Step::kRead) return process.election.saw(done.answer, now);
      if (done.ok) return process.election.wrote(*done.answer, done.sent_at, now);
      return process.election.failed(done.code, now);
    }
    if (now < call.times_out_at) return;
    if (!call.applied) process.orphans.push_back(call);
    process.call.reset();
    process.election.failed(Code::kDeadlineExceeded, now);
  }

  void note_leader(size_t index, int64_t now) {
    if (leader_ != index) {
      ASSERT_GE(now, quiet_from_) << "two leaders, or a write of the last one may still be under way";
      leader_ = index;
      ++leads_;
    }
    quiet_from_ = now + options_of("").write_timeout.nanos;
  }

  SeededRandom random_;
  std::vector<Process> processes_;
  std::optional<LeaseRecord> record_;
  int64_t version_ = 0;
  std::optional<size_t> leader_;
  int64_t quiet_from_ = INT64_MIN;
  int leads_ = 0;
};

TEST(Election, NeverTwoLeadersUnderRandomFaults) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(seed);
    for (int64_t now = 0; now < 1800 * kSecond; now += kSecond / 4) {
      cluster.tick(now);
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GE(cluster.leads(), 3);
  }
}

}  // namespace
}  // namespace heddle::kube
