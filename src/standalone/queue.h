// The order of the queue. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "standalone/job.h"

namespace heddle::standalone {

struct QueueOptions {
  // A job that has waited this long is starved: it goes before all that are not, whatever their priority, and nothing
  // behind it starts until it has. So a job waits at most this bound, plus the time that what then runs (and what is
  // starved and older) still takes.
  Duration starvation_bound = Duration::seconds(600);
};

struct QueueOrder {
  std::vector<const Job*> jobs;  // in the order in which they are tried
  // How many of `jobs`, from the front, are starved. When one of these cannot start, the ones behind it are not tried.
  size_t starved = 0;
};

// Waiting jobs of `jobs` in order: starved ones by age, then the others by priority and, within a priority, by age.
// Before a starved job appears, one that cannot start does not hold up a later one that fits.
QueueOrder queue_order(const std::vector<Job>& jobs, Time now, const QueueOptions& options);

}  // namespace heddle::standalone
