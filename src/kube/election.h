// The rules of LeaderLease without clock, thread or network. Internal to kube; lease.cc drives it.
//
// Every time is of the caller's monotonic clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/lease.h"

namespace heddle::kube {

struct LeaseRecord {
  std::string holder;
  int64_t duration_seconds = 0;
  std::string acquire_time;  // MicroTime texts
  std::string renew_time;
  int64_t transitions = 0;
  std::string resource_version;

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

// Errors: kInvalidArgument. Missing fields of spec are empty, as the API allows.
Result<LeaseRecord> parse_lease(const std::string& json);
// The object for create (no resource_version) or update.
std::string lease_json(const LeaseOptions& options, const LeaseRecord& record);

class Election {
 public:
  explicit Election(LeaseOptions options);

  enum class Step { kRead, kCreate, kUpdate, kWait };
  struct Action {
    Step step = Step::kRead;
    LeaseRecord record;  // what to write
    Duration wait{};     // kWait: at most so long
  };

  // What to do at `now`, with wall_now for what is written down.
  [[nodiscard]] Action next(int64_t now, Time wall_now) const;

  // The answer of a read; nothing: there is no such Lease.
  void saw(const std::optional<LeaseRecord>& record, int64_t now);
  // Our write was confirmed; sent_at: taken before it was sent.
  void wrote(const LeaseRecord& record, int64_t sent_at, int64_t now);
  // A read or write failed: what the Lease says now is unknown, so it is read next. A lead goes on until lead_until().
  void failed(Code code, int64_t now);

  // This process leads while now < lead_until().
  [[nodiscard]] int64_t lead_until() const { return lead_until_; }
  // The record to write when giving the lease back; nothing when it is not ours.
  [[nodiscard]] std::optional<LeaseRecord> release(Time wall_now) const;
  [[nodiscard]] const LeaseOptions& options() const { return options_; }

 private:
  void saw_nothing(int64_t now);
  [[nodiscard]] bool ours() const { return known_ && known_->holder == options_.identity; }
  [[nodiscard]] int64_t free_at() const;
  [[nodiscard]] LeaseRecord own_record(Time wall_now) const;

  LeaseOptions options_;
  bool read_needed_ = true;
  std::optional<LeaseRecord> known_;     // as last read or written
  std::optional<LeaseRecord> stranger_;  // the last one seen of another holder, or given back by one
  int64_t stranger_seen_ = 0;            // when it was first seen like that
  bool exists_ = false;
  bool ever_existed_ = false;
  int64_t seen_ = INT64_MIN;  // the last answer of a read
  int64_t lead_until_ = INT64_MIN;
  int64_t try_at_ = INT64_MIN;
};

}  // namespace heddle::kube
