#include "kube/election.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/json_read.h"

namespace heddle::kube {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

int64_t number_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

int64_t whole_seconds(Duration duration) {
  return std::max<int64_t>((duration.nanos + kNanosPerSecond - 1) / kNanosPerSecond, 1);
}

}  // namespace

Result<LeaseRecord> parse_lease(const std::string& json) {
  const auto object = parse_json(json);
  if (!object.is_object() || !object.contains("metadata") || !object["metadata"].is_object()) {
    return fail(Code::kInvalidArgument, "the answer is no Lease");
  }
  LeaseRecord record;
  record.resource_version = json_text(object["metadata"], "resourceVersion");
  if (record.resource_version.empty()) {
    return fail(Code::kInvalidArgument, "a Lease without a version", "metadata.resourceVersion");
  }
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) return record;
  record.holder = json_text(*spec, "holderIdentity");
  record.duration_seconds = number_of(*spec, "leaseDurationSeconds");
  record.acquire_time = json_text(*spec, "acquireTime");
  record.renew_time = json_text(*spec, "renewTime");
  record.transitions = number_of(*spec, "leaseTransitions");
  return record;
}

std::string lease_json(const LeaseOptions& options, const LeaseRecord& record) {
  nlohmann::json metadata = {{"name", options.name}, {"namespace", options.name_space}};
  if (!record.resource_version.empty()) metadata["resourceVersion"] = record.resource_version;
  nlohmann::json spec = {{"holderIdentity", record.holder},
                         {"leaseDurationSeconds", record.duration_seconds},
                         {"leaseTransitions", record.transitions},
                         {"renewTime", record.renew_time}};
  if (!record.acquire_time.empty()) spec["acquireTime"] = record.acquire_time;
  const nlohmann::json object = {
      {"apiVersion", "coordination.k8s.io/v1"}, {"kind", "Lease"}, {"metadata", metadata}, {"spec", spec}};
  return dump_json(object);
}

Election::Election(LeaseOptions options) : options_(std::move(options)) {
  if (options_.renew_deadline >= options_.lease_duration) {
    options_.renew_deadline = Duration{options_.lease_duration.nanos / 2};
  }
}

// When nobody can be writing any more. A holder may have announced a longer duration than ours; it renews accordingly.
int64_t Election::free_at() const {
  if (!stranger_) return INT64_MIN;
  const int64_t grace = options_.write_timeout.nanos;
  if (stranger_->holder.empty()) return stranger_seen_ + grace;
  const int64_t announced = std::clamp<int64_t>(stranger_->duration_seconds, 0, 3600) * kNanosPerSecond;
  return stranger_seen_ + std::max(options_.lease_duration.nanos, announced) + grace;
}

LeaseRecord Election::own_record(Time wall_now) const {
  LeaseRecord record;
  record.holder = options_.identity;
  record.duration_seconds = whole_seconds(options_.lease_duration);
  record.renew_time = format_rfc3339_micro(wall_now);
  record.acquire_time = record.renew_time;
  if (known_) {
    record.resource_version = known_->resource_version;
    record.transitions = known_->transitions + (ours() ? 0 : 1);
    if (ours()) record.acquire_time = known_->acquire_time;
  }
  return record;
}

Election::Action Election::next(int64_t now, Time wall_now) const {
  if (now < try_at_) return {Step::kWait, {}, Duration{try_at_ - now}};
  if (read_needed_) return {Step::kRead, {}, {}};
  if (!ours() && now < free_at()) return {Step::kRead, {}, {}};  // look whether the holder still renews
  if (!exists_ && now - seen_ > options_.retry_period.nanos) return {Step::kRead, {}, {}};
  return {exists_ ? Step::kUpdate : Step::kCreate, own_record(wall_now), {}};
}

void Election::saw(const std::optional<LeaseRecord>& record, int64_t now) {
  read_needed_ = false;
  exists_ = record.has_value();
  known_ = record;
  try_at_ = now;
  if (!record) {
    saw_nothing(now);
  } else if (record->holder == options_.identity) {
    // Our own write whose answer was lost, or a lead that ran out with nobody else taking it: confirm it by a renewal.
    stranger_.reset();
  } else {
    lead_until_ = INT64_MIN;
    const bool never_held = record->holder.empty() && record->renew_time.empty();
    if (record != stranger_ && !(never_held && !stranger_)) {
      stranger_ = record;
      stranger_seen_ = now;
    }
  }
  ever_existed_ = ever_existed_ || exists_;
  seen_ = now;
  if (!ours() && free_at() > now) try_at_ = std::min(now + options_.retry_period.nanos, free_at());
}

// A Lease that was deleted tells nothing about who holds it, and has no version that would guard a write. Its leader
// makes it anew; the others wait from when they saw that it was gone, as if somebody had renewed it then.
void Election::saw_nothing(int64_t now) {
  if (now < lead_until_) return;
  if (!ever_existed_) return;
  const LeaseRecord gone{"(deleted)", 0, {}, {}, 0, {}};
  if (stranger_ == gone && now - seen_ <= options_.lease_duration.nanos) return;
  stranger_ = gone;
  stranger_seen_ = now;
}

void Election::wrote(const LeaseRecord& record, int64_t sent_at, int64_t now) {
  exists_ = ever_existed_ = true;
  read_needed_ = false;
  known_ = record;
  stranger_.reset();
  lead_until_ = std::max(lead_until_, sent_at + options_.renew_deadline.nanos);
  try_at_ = now + options_.retry_period.nanos;
}

void Election::failed(Code code, int64_t now) {
  // A conflict or a vanished Lease must be looked at at once; a server in trouble gets a pause.
  const bool look = code == Code::kConflict || code == Code::kAlreadyExists || code == Code::kNotFound;
  read_needed_ = true;
  try_at_ = look ? now : now + std::min(options_.retry_period.nanos, options_.renew_deadline.nanos / 4);
}

std::optional<LeaseRecord> Election::release(Time wall_now) const {
  if (!ours()) return std::nullopt;
  LeaseRecord record = *known_;
  record.holder.clear();
  record.duration_seconds = 1;
  record.renew_time = format_rfc3339_micro(wall_now);
  return record;
}

}  // namespace heddle::kube
