#include "simulation/tally.h"

#include <algorithm>

namespace heddle::simulation {
namespace {

constexpr double kNanos = 1e9;  // of a second
constexpr double kMilliNanosAnHour = 1000 * 3600 * kNanos;

Waits waits_of(std::vector<int64_t> nanos) {
  Waits waits;
  if (nanos.empty()) return waits;
  std::sort(nanos.begin(), nanos.end());
  const auto rank = [&](size_t percent) {
    constexpr size_t kAll = 100;
    const size_t at = (nanos.size() * percent + kAll - 1) / kAll;
    return static_cast<double>(nanos[std::max<size_t>(at, 1) - 1]) / kNanos;
  };
  double sum = 0;
  for (const int64_t one : nanos) sum += static_cast<double>(one);
  waits.count = static_cast<int64_t>(nanos.size());
  waits.mean = sum / static_cast<double>(nanos.size()) / kNanos;
  waits.p50 = rank(50);
  waits.p99 = rank(99);
  waits.longest = static_cast<double>(nanos.back()) / kNanos;
  return waits;
}

double percent(double milli_nanos, int64_t devices, int64_t nanos) {
  const double all = static_cast<double>(devices) * 1000 * static_cast<double>(nanos);
  return all > 0 ? 100 * milli_nanos / all : 0;
}

}  // namespace

int64_t milli_of(const std::vector<queueing::Portion>& portions) {
  int64_t sum = 0;
  for (const queueing::Portion& portion : portions) sum += portion.milli_devices;
  return sum;
}

Tally::Tally(const std::vector<engine::FleetPart>& fleet) {
  for (const engine::FleetPart& part : fleet) kinds_[{part.vendor, part.model}].devices += part.devices;
}

void Tally::advance(Time now) {
  if (!began_) {
    began_ = true;
    begin_ = last_ = last_arrival_ = now;
  }
  const auto passed = static_cast<double>((now - last_).nanos);
  for (auto& [kind, amount] : kinds_) {
    const double used = static_cast<double>(amount.milli) * passed;
    amount.milli_nanos += used;
    if (arriving_) amount.while_arriving += used;
  }
  for (auto& [name, queue] : queues_) queue.milli_nanos += static_cast<double>(queue.milli) * passed;
  if (arriving_) last_arrival_ = now;
  last_ = now;
}

void Tally::all_have_come() {
  arriving_ = false;
}

void Tally::change(const std::string& queue, const std::vector<queueing::Portion>& portions, int sign) {
  for (const queueing::Portion& portion : portions) {
    kinds_[{portion.vendor, portion.model}].milli += sign * portion.milli_devices;
    queues_[queue].milli += sign * portion.milli_devices;
  }
}

void Tally::started(const std::string& queue, Duration waited, bool gang) {
  waits_.push_back(waited.nanos);
  queues_[queue].waits.push_back(waited.nanos);
  if (gang) gang_waits_.push_back(waited.nanos);
}

void Tally::evicted(const std::string& queue, Duration ran, int64_t milli_devices) {
  ++evictions_;
  ++queues_[queue].use.evicted;
  lost_milli_nanos_ += static_cast<double>(ran.nanos) * static_cast<double>(milli_devices);
}

void Tally::report(SimulationResult& result) const {
  const int64_t all = (last_ - begin_).nanos;
  const int64_t arriving = (last_arrival_ - begin_).nanos;
  double used = 0;
  double used_while_arriving = 0;
  int64_t devices = 0;
  for (const auto& [kind, amount] : kinds_) {
    used += amount.milli_nanos;
    used_while_arriving += amount.while_arriving;
    devices += amount.devices;
    if (amount.devices == 0) continue;
    result.kinds.push_back({kind.first, kind.second, amount.devices, percent(amount.milli_nanos, amount.devices, all)});
  }
  result.allocated_percent = percent(used, devices, all);
  result.allocated_percent_while_arriving = percent(used_while_arriving, devices, arriving);
  result.seconds_simulated = static_cast<double>(all) / kNanos;
  result.waits = waits_of(waits_);
  result.gang_waits = waits_of(gang_waits_);
  result.evictions = evictions_;
  result.lost_hours = lost_milli_nanos_ / kMilliNanosAnHour;
  for (const auto& [name, queue] : queues_) {
    QueueUse use = queue.use;
    use.queue = name;
    use.waits = waits_of(queue.waits);
    use.device_hours = queue.milli_nanos / kMilliNanosAnHour;
    result.queues.push_back(std::move(use));
  }
}

}  // namespace heddle::simulation
