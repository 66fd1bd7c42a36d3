// Who gives way on one machine: rules R1 and R2 of docs/queueing.md, what is held meanwhile, and what a restart keeps.
#include <gmock/gmock.h>

#include <fstream>

#include "standalone/queued_daemon_test.h"

namespace heddle::standalone {
namespace {

using testing::HasSubstr;

const char* const kOwnerOfOne = R"("quotas":[{"guaranteed":1}])";

class EvictTest : public QueuedDaemonTest {
 protected:
  static JobRequest again(const std::string& queue_name, int64_t count = 1) {
    JobRequest request = whole(queue_name, count);
    request.on_eviction = OnEviction::kRequeue;
    return request;
  }
  static JobRequest urgent(const std::string& queue_name, int64_t priority) {
    JobRequest request = whole(queue_name);
    request.priority = priority;
    return request;
  }
  // A job that runs, with this process as its supervisor.
  JobView running(const JobRequest& request, const Child& supervisor) {
    const JobView view = std::get<JobView>(submit(request));
    EXPECT_EQ(view.job.state, JobState::kGranted);
    std::filesystem::create_directories(folder_ + "/jobs/" + std::to_string(view.job.id));
    std::filesystem::create_directories(folder_ + "/claims/" + view.job.uid);
    EXPECT_TRUE(daemon_->start(view.job.id, *identify(supervisor.pid())).has_value());
    return now(view);
  }
  // What the supervisor does when it is told to end, and what the daemon does then.
  void goes(const JobView& view, Child& supervisor, const std::string& exit) {
    std::ofstream(folder_ + "/jobs/" + std::to_string(view.job.id) + "/exit") << exit;
    supervisor.end();
    daemon_->turn();
  }
};

TEST_F(EvictTest, AGuaranteeTakesBackWhatWasBorrowedAndTheVictimWaitsAgain) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")});
  Child one;
  Child two;
  const JobView old = running(again("guest"), one);
  const JobView young = running(again("guest"), two);
  const JobView owner = job("owner");
  EXPECT_EQ(owner.job.state, JobState::kWaiting);
  EXPECT_EQ(owner.reasons.at(0).code, "Evicting");
  EXPECT_THAT(owner.reasons.at(0).message,
              HasSubstr("waits for job 2 to end: it is within what queue owner is guaranteed"));
  EXPECT_FALSE(now(old).job.eviction.has_value());
  ASSERT_TRUE(now(young).job.eviction.has_value()) << "the younger one goes";
  EXPECT_EQ(now(young).job.eviction->why, "job 3 of queue owner takes back what queue guest borrowed");
  const JobView late = job("guest");
  goes(young, two, "143 told\n");
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
  EXPECT_EQ(now(owner).shares.at(0).card, young.shares.at(0).card);
  const JobView back = now(young);
  EXPECT_EQ(back.job.state, JobState::kWaiting);
  EXPECT_EQ(back.job.evictions, 1);
  EXPECT_EQ(back.position, 1) << "it keeps its age";
  EXPECT_EQ(now(late).position, 2);
  EXPECT_TRUE(back.shares.empty());
  ASSERT_TRUE(daemon_->cancel(owner.job.id, "enough"));
  EXPECT_EQ(now(young).job.state, JobState::kGranted);
  EXPECT_EQ(now(old).job.state, JobState::kRunning);
}

TEST_F(EvictTest, WhatMayNotRunTwiceEnds) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")});
  Child child;
  const JobView guest = running(whole("guest", 2), child);
  const JobView owner = job("owner");
  goes(guest, child, "143 told\n");
  EXPECT_EQ(now(guest).job.state, JobState::kEnded);
  EXPECT_EQ(now(guest).job.outcome, "evicted: job 2 of queue owner takes back what queue guest borrowed");
  EXPECT_EQ(now(guest).job.exit_code, 143);
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
}

TEST_F(EvictTest, WhatEndedByItselfWasNotEvicted) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")});
  Child child;
  const JobView guest = running(again("guest", 2), child);
  const JobView owner = job("owner");
  goes(guest, child, "0\n");
  EXPECT_EQ(now(guest).job.outcome, "done");
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
}

TEST_F(EvictTest, InAQueueAHigherPriorityTakesWhatIsBorrowed) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")});
  Child one;
  Child two;
  const JobView own = running(again("owner"), one);
  const JobView guest = running(again("guest"), two);
  EXPECT_EQ(job("guest").reasons.at(0).code, "Guarantee") << "nobody goes for an equal";
  const JobView other = std::get<JobView>(submit(urgent("owner", -1)));
  EXPECT_FALSE(now(guest).job.eviction.has_value()) << "beyond its guarantee it may borrow what is free only";
  ASSERT_TRUE(daemon_->cancel(other.job.id, "enough"));
  const JobView first = std::get<JobView>(submit(urgent("guest", 5)));
  ASSERT_TRUE(now(guest).job.eviction.has_value());
  EXPECT_EQ(now(guest).job.eviction->why,
            "job " + std::to_string(first.job.id) + " of queue guest has a higher priority");
  EXPECT_FALSE(now(own).job.eviction.has_value());
}

TEST_F(EvictTest, WhatIsMadeFreeIsKeptForItsOwner) {
  start({queue("owner", R"("quotas":[{"guaranteed":2}])"), queue("guest", "")}, 3);
  Child one;
  Child two;
  const JobView first = running(again("guest"), one);
  const JobView second = running(again("guest"), two);
  const JobView owner = std::get<JobView>(run("owner", 2));
  ASSERT_TRUE(now(second).job.eviction.has_value());
  ASSERT_FALSE(now(first).job.eviction.has_value()) << "one card is free: one more is enough";
  const JobView waits = job("guest");
  EXPECT_EQ(waits.job.state, JobState::kWaiting) << "the third card is the owner's now";
  ASSERT_TRUE(daemon_->cancel(owner.job.id, "enough"));
  EXPECT_EQ(now(waits).job.state, JobState::kGranted);
  goes(second, two, "143 told\n");
  EXPECT_EQ(now(second).job.state, JobState::kGranted) << "it was told to go, and comes back at once";
}

TEST_F(EvictTest, WhatDoesNotWaitEvictsNobody) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")});
  Child child;
  const JobView guest = running(again("guest", 2), child);
  JobRequest request = whole("owner");
  request.patience = Patience::kRefuse;
  EXPECT_FALSE(std::get<Refused>(submit(request)).reasons.empty());
  EXPECT_FALSE(now(guest).job.eviction.has_value());
}

TEST_F(EvictTest, WhatWasCancelledDoesNotComeBack) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")});
  Child child;
  const JobView guest = running(again("guest", 2), child);
  const JobView owner = job("owner");
  ASSERT_TRUE(now(guest).job.eviction.has_value());
  ASSERT_TRUE(daemon_->cancel(guest.job.id, "cancelled by ann"));
  EXPECT_FALSE(Ledger::open(folder_ + "/ledger.db").value()->find(guest.job.id)->eviction.has_value());
  goes(guest, child, "143 told\n");
  EXPECT_EQ(now(guest).job.outcome, "cancelled by ann");
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
}

TEST_F(EvictTest, ARestartGoesOnWithAnEviction) {
  const std::vector<std::string> queues = {queue("owner", kOwnerOfOne), queue("guest", "")};
  start(queues);
  Child child;
  const JobView guest = running(again("guest", 2), child);
  const JobView owner = job("owner");
  const JobView other = job("guest");
  start(queues);
  EXPECT_EQ(now(guest).job.eviction->by, owner.job.id);
  EXPECT_EQ(now(owner).reasons.at(0).code, "Evicting");
  EXPECT_EQ(now(other).job.state, JobState::kWaiting);
  std::ofstream(folder_ + "/jobs/1/exit") << "143 told\n";
  child.end();
  start(queues);  // it went while the daemon was away
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
  EXPECT_EQ(now(guest).job.state, JobState::kWaiting);
  EXPECT_EQ(now(guest).job.evictions, 1);
  EXPECT_EQ(now(other).job.state, JobState::kGranted) << "one card is left, and the guest needs two";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/claims/" + guest.job.uid));
}

TEST_F(EvictTest, ALimitOfAModelIsSeenBeforeAnybodyIsAskedToGo) {
  start({queue("owner", R"("quotas":[{"guaranteed":1},{"model":"NVIDIA A100","limit":0}])"), queue("guest", "")});
  Child one;
  Child two;
  JobRequest on_a100 = again("guest");
  on_a100.model = "A100";
  JobRequest on_h100 = again("guest");
  on_h100.model = "H100";
  const JobView large = running(on_h100, one);
  const JobView young = running(on_a100, two);
  job("owner");
  EXPECT_FALSE(now(young).job.eviction.has_value()) << "the owner may not have its card";
  EXPECT_TRUE(now(large).job.eviction.has_value());
}

// As in a cluster: at once after the first time, then after longer and longer pauses.
TEST_F(EvictTest, RoomThatWasMadeInVainIsMadeAgain) {
  start({queue("owner", kOwnerOfOne), queue("guest", "")}, 3);
  Child one;
  Child two;
  Child three;
  const JobView first = running(again("guest"), one);
  const JobView second = running(again("guest"), two);
  const JobView third = running(again("guest"), three);
  const JobView owner = job("owner");
  ASSERT_TRUE(now(third).job.eviction.has_value());
  sick(third);
  goes(third, three, "143 told\n");
  EXPECT_EQ(now(owner).job.state, JobState::kWaiting);
  ASSERT_TRUE(now(second).job.eviction.has_value()) << "another card can be had";
  sick(second);
  goes(second, two, "143 told\n");
  EXPECT_EQ(now(owner).job.state, JobState::kWaiting);
  clock_.advance(Duration::seconds(29));
  daemon_->turn();
  EXPECT_FALSE(now(first).job.eviction.has_value()) << "whatever came in between may do so again";
  clock_.advance(Duration::seconds(1));
  daemon_->turn();
  ASSERT_TRUE(now(first).job.eviction.has_value());
  goes(first, one, "143 told\n");
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
}

TEST_F(EvictTest, ABoxIsTakenBackAsAWhole) {
  start({queue("owner", R"("quotas":[{"counts":"Boxes","boxDevices":2,"guaranteed":1}])"), queue("guest", "")}, 5);
  const auto h100 = [](const std::string& queue_name, int64_t count) {
    JobRequest request = again(queue_name, count);
    request.model = "H100";
    return request;
  };
  Child box;
  Child one;
  const JobView borrowed = running(h100("guest", 2), box);
  const JobView single = running(h100("guest", 1), one);
  const JobView waits = std::get<JobView>(submit(h100("guest", 1)));
  EXPECT_EQ(waits.job.state, JobState::kGranted) << "the borrowed box would be taken back";
  const JobView owner = std::get<JobView>(submit(h100("owner", 2)));
  ASSERT_FALSE(owner.reasons.empty());
  EXPECT_EQ(owner.reasons.at(0).code, "Evicting");
  EXPECT_TRUE(now(borrowed).job.eviction.has_value());
  EXPECT_FALSE(now(single).job.eviction.has_value());
}

}  // namespace
}  // namespace heddle::standalone
