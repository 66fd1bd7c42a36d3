// Whether quota and reservations let a workload start, and what would have to change.
#include <fmt/format.h>

#include <algorithm>

#include "queueing/queues_impl.h"

namespace heddle::queueing {
namespace {

// The end of what never ends.
constexpr Time kNever{kUnbounded};

Time end_of(Time start, const std::optional<Duration>& runtime) {
  if (!runtime || runtime->nanos > kUnbounded - std::max<int64_t>(start.unix_nanos, 0)) return kNever;
  return start + *runtime;
}

int64_t most_of(const Bounds& bounds) {
  const bool bounded = bounds.borrowing < kUnbounded - bounds.guaranteed;
  return std::min(bounds.limit, bounded ? bounds.guaranteed + bounds.borrowing : kUnbounded);
}

}  // namespace

std::optional<Reason> Queues::Impl::refusal(const Entry& entry) const {
  if (auto reason = member_refusal(entry)) return reason;
  if (auto reason = quota_refusal(entry)) return reason;
  return entry.spec.reservation.empty() ? reservation_refusal(entry) : std::nullopt;
}

std::optional<Reason> Queues::Impl::quota_refusal(const Entry& entry) const {
  for (size_t m = 0; m < meters.size(); ++m) {
    const int64_t ask = entry.demand[m];
    if (ask == 0) continue;
    for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) {
      const Queue& queue = queues[q];
      const Bounds& bounds = queue.bounds[m];
      const int64_t used = in_use(q, m);
      const auto text = [&](int64_t amount) { return amount_text(meters[m], amount); };
      if (ask > bounds.limit - used) {
        if (ask > bounds.limit) {
          return Reason{"Limit", fmt::format("queue {}: the limit is {}, and {} are asked for: fits with a limit of {}",
                                             queue.name, text(bounds.limit), text(ask), text(ask))};
        }
        return Reason{
            "Limit",
            fmt::format("queue {}: the limit is {}, {} in use, {} asked: fits when {} of it end, or with a limit of {}",
                        queue.name, text(bounds.limit), text(used), text(ask), text(used + ask - bounds.limit),
                        text(used + ask))};
      }
      const int64_t most = most_of(bounds);
      if (ask > most - used) {
        return Reason{
            "Borrowing",
            fmt::format("queue {}: {} are guaranteed and it may borrow {}; {} in use, {} asked: fits when {} of it end",
                        queue.name, text(bounds.guaranteed), text(bounds.borrowing), text(used), text(ask),
                        text(used + ask - most))};
      }
    }
    if (auto reason = shared_refusal(entry, m)) return reason;
  }
  return std::nullopt;
}

std::vector<size_t> Queues::Impl::full_queues(const Entry& entry) const {
  std::vector<size_t> full;
  for (size_t m = 0; m < meters.size(); ++m) {
    if (entry.demand[m] == 0) continue;
    for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) {
      if (entry.demand[m] > most_of(queues[q].bounds[m]) - in_use(q, m)) full.push_back(q);
    }
    if (root_is_short(entry, m)) full.push_back(0);
  }
  return full;
}

bool Queues::Impl::never_fits(const Entry& entry) const {
  for (size_t m = 0; m < meters.size(); ++m) {
    for (size_t q = entry.leaf; q != kNone && entry.demand[m] > 0; q = queues[q].parent) {
      if (entry.demand[m] > most_of(queues[q].bounds[m])) return true;
    }
    int64_t more = entry.demand[m];
    for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) {
      const Queue& queue = queues[q];
      int64_t below = 0;
      for (const size_t child : queue.children) below += queues[child].kept[m];
      more = std::max(below + more, queue.bounds[m].withheld) - queue.kept[m];
    }
    const int64_t total = queues.front().bounds[m].guaranteed;
    if (total != kUnbounded && more > total - queues.front().kept[m]) return true;
  }
  return false;
}

// How much more of the root would be taken, with what queues withhold from lending counted as taken.
int64_t Queues::Impl::taken_more(const Entry& entry, size_t m) const {
  int64_t more = entry.demand[m];
  for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) {
    const Queue& queue = queues[q];
    int64_t below = queue.leaf() ? queue.used[m] : 0;
    for (const size_t child : queue.children) below += queues[child].taken[m];
    more = std::max(below + more, queue.bounds[m].withheld) - queue.taken[m];
  }
  return more;
}

bool Queues::Impl::root_is_short(const Entry& entry, size_t m) const {
  const int64_t total = queues.front().bounds[m].guaranteed;
  return total != kUnbounded && taken_more(entry, m) > total - queues.front().taken[m];
}

// The same as !refusal(), without words.
bool Queues::Impl::admits(const Entry& entry) const {
  if (!entry.spec.reservation.empty() && member_refusal(entry)) return false;
  for (size_t m = 0; m < meters.size(); ++m) {
    if (entry.demand[m] == 0) continue;
    for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) {
      if (entry.demand[m] > most_of(queues[q].bounds[m]) - in_use(q, m)) return false;
    }
    if (root_is_short(entry, m)) return false;
  }
  return !entry.spec.reservation.empty() || reservations.empty() || !reservation_refusal(entry);
}

std::optional<Reason> Queues::Impl::shared_refusal(const Entry& entry, size_t m) const {
  if (!root_is_short(entry, m)) return std::nullopt;
  const int64_t total = queues.front().bounds[m].guaranteed;
  const int64_t taken = queues.front().taken[m];
  const int64_t more = taken_more(entry, m);
  const auto text = [&](int64_t amount) { return amount_text(meters[m], amount); };
  const int64_t withheld = taken - queues.front().used[m];
  return Reason{
      "Guarantee",
      fmt::format("there are {}, {} in use{}, {} asked: fits when {} of it end{}", text(total),
                  text(queues.front().used[m]),
                  withheld > 0 ? fmt::format(" and {} kept by queues that do not lend them", text(withheld)) : "",
                  text(entry.demand[m]), text(taken + more - total),
                  fits_guarantee(entry) ? "; it is within the queue's guarantee, so borrowed ones can be taken back"
                                        : "; queue " + queues[entry.leaf].name + " would borrow them")};
}

int64_t Queues::Impl::reserved_at(size_t m, Time when) const {
  int64_t sum = 0;
  for (size_t r = 0; r < reservations.size(); ++r) {
    if (reservations[r].start <= when && when < reservations[r].end)
      sum += std::max(reserved[r][m] - drawn[r][m], int64_t{0});
  }
  return sum;
}

std::optional<Reason> Queues::Impl::member_refusal(const Entry& entry) const {
  for (size_t r = 0; r < reservations.size(); ++r) {
    const Reservation& reservation = reservations[r];
    if (reservation.name != entry.spec.reservation) continue;
    if (now < reservation.start) {
      return Reason{"Reservation",
                    fmt::format("reservation {} starts at {}", reservation.name, format_rfc3339(reservation.start))};
    }
    if (now >= reservation.end) {
      return Reason{"Reservation",
                    fmt::format("reservation {} ended at {}", reservation.name, format_rfc3339(reservation.end))};
    }
    for (size_t m = 0; m < meters.size(); ++m) {
      // What it does not name is not what it is for, and is a matter of quota alone.
      if (!reservation.amounts.contains(meters[m].name)) continue;
      if (entry.demand[m] == 0 || entry.demand[m] <= reserved[r][m] - drawn[r][m]) continue;
      return Reason{"Reservation",
                    fmt::format("reservation {} is for {}, {} in use, {} asked", reservation.name,
                                amount_text(meters[m], reserved[r][m]), amount_text(meters[m], drawn[r][m]),
                                amount_text(meters[m], entry.demand[m]))};
    }
  }
  return std::nullopt;
}

// Now, and at the start of each reservation that begins before the workload has ended for sure.
std::optional<Reason> Queues::Impl::reservation_refusal(const Entry& entry) const {
  if (reservations.empty()) return std::nullopt;
  const Time end = end_of(now, entry.spec.runtime);
  for (size_t m = 0; m < meters.size(); ++m) {
    if (entry.demand[m] == 0 || queues.front().bounds[m].guaranteed == kUnbounded) continue;
    if (auto reason = window_refusal(entry, m, now)) return reason;
    for (const Reservation& reservation : reservations) {
      if (reservation.start <= now || reservation.start >= end) continue;
      if (auto reason = window_refusal(entry, m, reservation.start)) return reason;
    }
  }
  return std::nullopt;
}

std::optional<Reason> Queues::Impl::window_refusal(const Entry& entry, size_t m, Time when) const {
  const int64_t reserved_then = reserved_at(m, when);
  if (reserved_then == 0) return std::nullopt;
  const int64_t total = queues.front().bounds[m].guaranteed;
  int64_t used = queues.front().used[m];
  for (const auto& [id, other] : entries) {
    if (!active(other) || other.demand[m] == 0) continue;
    if (end_of(other.started, other.spec.runtime) <= when && when > now) used -= other.demand[m];
  }
  if (entry.demand[m] <= total - used - reserved_then) return std::nullopt;
  const bool later = when > now;
  return Reason{
      "Reservation",
      fmt::format("{} of {} are reserved {} {}, and {} in use then, {} asked{}", amount_text(meters[m], reserved_then),
                  amount_text(meters[m], total), later ? "from" : "since before", format_rfc3339(when),
                  amount_text(meters[m], used), amount_text(meters[m], entry.demand[m]),
                  later ? ": fits with a declared runtime that ends before (--deadline of a job, "
                          "activeDeadlineSeconds of a pod)"
                        : "")};
}

// Boxes that other guarantees, and what is left of the own one, may still call for.
Amounts Queues::Impl::keep_intact(const Entry& entry) const {
  Amounts keep(meters.size(), 0);
  for (size_t m = 0; m < meters.size(); ++m) {
    if (meters[m].kind != Meter::Kind::kBoxes) continue;
    for (size_t q = 0; q < queues.size(); ++q) {
      const Queue& queue = queues[q];
      if (!queue.leaf() || !queue.bounds[m].promised) continue;
      int64_t unmet = queue.bounds[m].guaranteed - queue.entitled[m];
      if (q == entry.leaf && fits_guarantee(entry)) unmet -= entry.demand[m];
      keep[m] += std::max<int64_t>(unmet, 0);
    }
  }
  return keep;
}

}  // namespace heddle::queueing
