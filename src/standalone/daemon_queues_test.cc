// The daemon where there are queues: who gets a card next, what is refused, and what a restart keeps.
#include <gtest/gtest.h>

#include <algorithm>

#include "standalone/queued_daemon_test.h"

namespace heddle::standalone {
namespace {

TEST_F(QueuedDaemonTest, ALimitHoldsBackItsOwnQueueOnly) {
  start({queue("a", R"("quotas":[{"limit":1}])"), queue("b", "")});
  const JobView first = job("a");
  EXPECT_EQ(first.job.state, JobState::kGranted);
  EXPECT_EQ(first.queue, "a");
  const JobView second = job("a");
  EXPECT_EQ(second.job.state, JobState::kWaiting);
  EXPECT_EQ(second.position, 1);
  EXPECT_EQ(second.reasons.at(0).code, "Limit");
  EXPECT_EQ(job("a").position, 2);
  EXPECT_EQ(job("b").job.state, JobState::kGranted);
  ASSERT_TRUE(daemon_->cancel(first.job.id, "enough"));
  EXPECT_EQ(now(second).job.state, JobState::kGranted);
}

TEST_F(QueuedDaemonTest, ADifferentModelIsTriedWhereQuotaRefusesTheFirst) {
  start({queue("a", R"("quotas":[{"model":"NVIDIA A100","limit":0}])"),
         queue("h", R"("quotas":[{"model":"NVIDIA H100","limit":0}])")});
  const JobView on_h100 = job("a");
  ASSERT_EQ(on_h100.job.state, JobState::kGranted);
  EXPECT_EQ(on_h100.shares.at(0).uuid, "GPU-1");
  const JobView on_a100 = job("h");
  ASSERT_EQ(on_a100.job.state, JobState::kGranted);
  EXPECT_EQ(on_a100.shares.at(0).uuid, "GPU-0");
}

TEST_F(QueuedDaemonTest, WhatIsGuaranteedGoesFirst) {
  start({queue("owner", R"("quotas":[{"guaranteed":1}])"), queue("guest", "")});
  const JobView first = job("guest");
  job("guest");
  const JobView waits = job("guest");
  const JobView owner = job("owner");
  EXPECT_EQ(owner.job.state, JobState::kWaiting);
  ASSERT_TRUE(daemon_->cancel(first.job.id, "enough"));
  EXPECT_EQ(now(owner).job.state, JobState::kGranted);
  EXPECT_EQ(now(waits).job.state, JobState::kWaiting);
}

TEST_F(QueuedDaemonTest, AQueueAndAJobChooseHowCardsAreChosen) {
  start({queue("together", R"("placementPolicy":"best-fit")"), queue("top", R"("placementPolicy":"spread")"),
         queue("apart", R"("parent":"top")")},
        4);
  const std::string first = card_of(share("together", 10));
  EXPECT_EQ(card_of(share("together", 10)), first);
  const std::string second = card_of(share("apart", 10));
  EXPECT_NE(second, first) << "as the queue above it says";
  JobRequest own = share("apart", 10);
  own.placement_policy = model::PlacementPolicy::kBestFit;
  EXPECT_EQ(card_of(own), first);
  const std::string third = card_of(share("apart", 10));
  EXPECT_NE(third, first);
  EXPECT_NE(third, second);
}

TEST_F(QueuedDaemonTest, ABoxThatIsGuaranteedIsKeptWhole) {
  start({queue("owner", R"("quotas":[{"counts":"Boxes","boxDevices":4,"guaranteed":1}])"), queue("guest", "")}, 9);
  // Nine cards make two boxes, of which one may be broken: five cards may be opened.
  std::vector<JobView> shares;
  for (int i = 0; i < 5; ++i) {
    JobRequest request = share("guest", 10);
    request.placement_policy = model::PlacementPolicy::kSpread;
    shares.push_back(std::get<JobView>(submit(request)));
    EXPECT_EQ(shares.back().job.state, JobState::kGranted);
  }
  JobRequest more = share("guest", 10);
  more.placement_policy = model::PlacementPolicy::kSpread;
  const std::string beside = card_of(more);
  EXPECT_TRUE(std::any_of(shares.begin(), shares.end(), [&](const JobView& one) {
    return one.shares.at(0).card == beside;
  })) << "spread would open a sixth card";
  const JobView waits = job("guest");
  EXPECT_EQ(waits.job.state, JobState::kWaiting);
  EXPECT_EQ(waits.reasons.at(0).code, "Boxes");
  const JobView box = std::get<JobView>(run("owner", 4));
  EXPECT_EQ(box.job.state, JobState::kGranted);
  EXPECT_EQ(now(waits).job.state, JobState::kWaiting) << "nothing is free";
  ASSERT_TRUE(daemon_->cancel(box.job.id, "enough"));
  EXPECT_EQ(now(waits).job.state, JobState::kWaiting) << "it is the owner's again";
  ASSERT_TRUE(daemon_->cancel(shares[0].job.id, "enough"));
  ASSERT_TRUE(daemon_->cancel(shares[1].job.id, "enough"));
  EXPECT_EQ(now(waits).job.state, JobState::kGranted);
}

TEST_F(QueuedDaemonTest, ADeadlineIsKept) {
  start({});
  JobRequest request = whole("");
  request.deadline_seconds = 60;
  const JobView view = std::get<JobView>(submit(request));
  Child child;
  ASSERT_TRUE(daemon_->start(view.job.id, *identify(child.pid())));
  daemon_->turn();
  EXPECT_EQ(now(view).job.state, JobState::kRunning);
  clock_.advance(Duration::seconds(61));
  daemon_->turn();
  child.end();
  daemon_->turn();
  EXPECT_EQ(now(view).job.state, JobState::kEnded);
  EXPECT_EQ(now(view).job.outcome, "ended: its deadline of 60 s is over");
}

TEST_F(QueuedDaemonTest, WhatHasNoPlaceInAQueueIsRefused) {
  start({queue("mine", R"("namespaces":["staff"],"quotas":[{"limit":1}])"), queue("other", R"("namespaces":["bob"])")});
  EXPECT_EQ(job("").queue, "mine");
  EXPECT_NE(why("nothing").find("there is no queue 'nothing'"), std::string::npos);
  EXPECT_NE(why("other").find("is for bob, and ann is none of them"), std::string::npos);
  EXPECT_FALSE(why("", 2).empty());  // more than the limit can never start
  JobRequest reserved = whole("mine");
  reserved.reservation = "r";
  EXPECT_NE(std::get<Refused>(submit(reserved)).reasons.at(0).message.find("there are no reservations here"),
            std::string::npos);
  start({});
  EXPECT_NE(why("mine").find("there are no queues here"), std::string::npos);
  reserved.queue.clear();
  EXPECT_NE(std::get<Refused>(submit(reserved)).reasons.at(0).message.find("start Heddle with"), std::string::npos);
}

TEST_F(QueuedDaemonTest, ARestartKeepsPlacesAndThePast) {
  const std::vector<std::string> queues = {queue("a", ""), queue("b", "")};
  start(queues);
  const JobView first = job("a");
  const JobView second = job("a");
  const JobView third = job("a");
  const JobView other = job("b");
  clock_.advance(Duration::seconds(100));
  daemon_->stop();
  daemon_->run();  // writes down what queues have had
  start(queues);
  EXPECT_EQ(now(third).position, 1);
  EXPECT_EQ(now(other).position, 1);
  EXPECT_EQ(now(second).job.state, JobState::kGranted);
  EXPECT_GT(Ledger::open(folder_ + "/ledger.db").value()->past().value().at("a").milli_device_seconds, 0);
  ASSERT_TRUE(daemon_->cancel(first.job.id, "enough"));
  EXPECT_EQ(now(other).job.state, JobState::kGranted) << "b has had less";
}

}  // namespace
}  // namespace heddle::standalone
