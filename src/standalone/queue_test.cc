#include "standalone/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::standalone {
namespace {

Job waiting(int64_t id, int64_t priority, int64_t submitted_second) {
  Job job;
  job.id = id;
  job.request.priority = priority;
  job.submitted = Time{submitted_second * 1'000'000'000};
  return job;
}

std::vector<int64_t> ids(const QueueOrder& order) {
  std::vector<int64_t> out;
  out.reserve(order.jobs.size());
  for (const auto* job : order.jobs) out.push_back(job->id);
  return out;
}

TEST(Queue, PriorityThenAge) {
  std::vector<Job> jobs = {waiting(1, 0, 0), waiting(2, 5, 1), waiting(3, 0, 2), waiting(4, 5, 3), waiting(5, -1, 0)};
  jobs.push_back(waiting(6, 100, 0));
  jobs.back().state = JobState::kRunning;
  const auto order = queue_order(jobs, Time{10'000'000'000}, {});
  EXPECT_EQ(ids(order), (std::vector<int64_t>{2, 4, 1, 3, 5}));
  EXPECT_EQ(order.starved, 0U);
}

TEST(Queue, TheStarvedGoFirstWhateverTheirPriority) {
  const std::vector<Job> jobs = {waiting(1, -5, 0), waiting(2, 5, 301), waiting(3, 0, 300), waiting(4, 9, 100)};
  const QueueOptions options{Duration::seconds(600)};
  // At 900 s: jobs 1, 3 and 4 have waited 600 s or more; job 2 lacks a second.
  const auto order = queue_order(jobs, Time{900'000'000'000}, options);
  EXPECT_EQ(ids(order), (std::vector<int64_t>{1, 3, 4, 2}));
  EXPECT_EQ(order.starved, 3U);
}

TEST(Queue, EmptyIsFine) {
  EXPECT_TRUE(queue_order({}, Time{0}, {}).jobs.empty());
}

}  // namespace
}  // namespace heddle::standalone
