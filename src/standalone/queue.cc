#include "standalone/queue.h"

#include <algorithm>
#include <tuple>

namespace heddle::standalone {

QueueOrder queue_order(const std::vector<Job>& jobs, Time now, const QueueOptions& options) {
  const auto is_starved = [&](const Job& job) { return now - job.submitted >= options.starvation_bound; };
  QueueOrder order;
  for (const auto& job : jobs) {
    if (job.state != JobState::kWaiting) continue;
    order.jobs.push_back(&job);
    if (is_starved(job)) ++order.starved;
  }
  std::sort(order.jobs.begin(), order.jobs.end(), [&](const Job* a, const Job* b) {
    const auto key = [&](const Job& job) {
      const bool starved = is_starved(job);
      return std::make_tuple(!starved, starved ? 0 : -job.request.priority, job.id);
    };
    return key(*a) < key(*b);
  });
  return order;
}

}  // namespace heddle::standalone
