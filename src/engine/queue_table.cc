#include "engine/queue_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codec/codec.h"

namespace heddle::engine {
namespace {

using model::QuotaMeter;

queueing::Meter meter_of(const QuotaMeter& meter) {
  queueing::Meter out;
  out.name = model::meter_name(meter);
  out.device_class = meter.device_class;
  out.vendor = meter.vendor;
  out.model = meter.model;
  switch (meter.counts) {
    case QuotaMeter::Counts::kDevices:
      out.kind = queueing::Meter::Kind::kDevices;
      break;
    case QuotaMeter::Counts::kMemory:
      out.kind = queueing::Meter::Kind::kMemory;
      break;
    case QuotaMeter::Counts::kCores:
      out.kind = queueing::Meter::Kind::kCores;
      break;
    case QuotaMeter::Counts::kBoxes:
      out.kind = queueing::Meter::Kind::kBoxes;
      out.shape = model::box_name(meter);
      break;
  }
  return out;
}

std::string amount_text(const QuotaMeter& meter, int64_t amount) {
  return queueing::amount_text(meter_of(meter), amount);
}

const model::QueueQuota* quota_for(const model::AcceleratorQueueSpec& spec, const QuotaMeter& meter) {
  const auto found = std::find_if(spec.quotas.begin(), spec.quotas.end(),
                                  [&](const model::QueueQuota& quota) { return quota.meter == meter; });
  return found == spec.quotas.end() ? nullptr : &*found;
}

int64_t guaranteed(const model::AcceleratorQueueSpec& spec, const QuotaMeter& meter) {
  const model::QueueQuota* quota = quota_for(spec, meter);
  return quota == nullptr ? 0 : quota->guaranteed.value_or(0);
}

int64_t capped_sum(int64_t a, int64_t b) {
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

template <typename T>
Error error_of(const Result<T>& result) {
  return result ? Error{} : result.error();
}

}  // namespace

Result<QueueObject> read_queue_object(std::string_view json) {
  auto queue = codec::parse_queue(json);
  if (queue) {
    const model::ObjectMeta meta = queue->meta;
    const int64_t generation = queue->generation;
    return QueueObject{meta, generation, std::move(queue)};
  }
  HEDDLE_TRY(const codec::AnyObject any, codec::parse_any(json));
  return QueueObject{any.meta, 0, std::move(queue)};
}

Result<ReservationObject> read_reservation_object(std::string_view json) {
  auto reservation = codec::parse_reservation(json);
  HEDDLE_TRY(const codec::AnyObject any, codec::parse_any(json));
  return ReservationObject{any.meta, 0, std::move(reservation)};
}

void QueueTable::upsert(QueueObject object) {
  const auto known = queues_.find(object.meta.name);
  // Our own writes of the status change nothing here.
  const bool same = known != queues_.end() && known->second.meta.uid == object.meta.uid &&
                    known->second.queue.has_value() == object.queue.has_value() &&
                    (object.queue ? known->second.queue->spec == object.queue->spec
                                  : error_of(known->second.queue).text() == error_of(object.queue).text());
  if (!same) ++version_;
  std::string name = object.meta.name;
  queues_.insert_or_assign(std::move(name), std::move(object));
}

void QueueTable::remove_queue(const std::string& name) {
  if (queues_.erase(name) > 0) ++version_;
}

void QueueTable::upsert(ReservationObject object) {
  ++version_;
  std::string name = object.meta.name;
  reservations_.insert_or_assign(std::move(name), std::move(object));
}

void QueueTable::remove_reservation(const std::string& name) {
  if (reservations_.erase(name) > 0) ++version_;
}

void QueueTable::upsert(const model::Namespace& name_space) {
  const auto [known, added] = labels_.try_emplace(name_space.meta.name);
  if (!added && known->second == name_space.meta.labels) return;
  known->second = name_space.meta.labels;
  if (any()) ++version_;
}

void QueueTable::remove_namespace(const std::string& name) {
  labels_.erase(name);
}

bool QueueTable::newer(const std::string& a, const std::string& b) const {
  const auto created = [&](const std::string& name) {
    const auto found = queues_.find(name);
    return found == queues_.end() ? Time{} : found->second.meta.created;
  };
  return std::pair(created(a), a) > std::pair(created(b), b);
}

// Its parents, and whether it may name namespaces.
void QueueTable::check_place(const Specs& specs, const std::string& name, Faults& faults) const {
  std::string at = name;
  std::set<std::string> seen;
  while (!at.empty()) {
    if (!seen.insert(at).second) {
      faults.emplace(name, Fault{"spec.parent", "its parents form a ring: name a queue that is not below this one"});
      return;
    }
    const auto spec = specs.find(at);
    if (spec == specs.end()) {
      // Only the queue that names it is at fault.
      if (specs.at(name).parent == at)
        faults.emplace(name, Fault{"spec.parent", "there is no queue " + at + ": create it, or name another"});
      return;
    }
    at = spec->second.parent;
  }
}

// No more is guaranteed below a queue than it has. The newest of the queues that guarantee too much is at fault.
void QueueTable::check_sums(const Specs& specs, Faults& faults) const {
  std::map<std::string, std::vector<std::string>> children;
  for (const auto& [name, spec] : specs) {
    if (!spec.parent.empty() && specs.contains(spec.parent)) children[spec.parent].push_back(name);
  }
  for (const auto& [parent, names] : children) {
    const model::AcceleratorQueueSpec& above = specs.at(parent);
    if (!above.namespaces.empty() || above.namespace_selector) {
      const char* field = above.namespaces.empty() ? "spec.namespaceSelector" : "spec.namespaces";
      faults.emplace(parent, Fault{field, fmt::format("there are queues below this one ({}): name them there",
                                                      fmt::join(names, ", "))});
    }
    std::map<QuotaMeter, int64_t> sums;
    for (const std::string& child : names) {
      for (const model::QueueQuota& quota : specs.at(child).quotas) {
        if (quota.guaranteed.value_or(0) > 0) sums[quota.meter] = capped_sum(sums[quota.meter], *quota.guaranteed);
      }
    }
    for (const auto& [meter, sum] : sums) {
      const int64_t has = guaranteed(above, meter);
      if (sum <= has) continue;
      std::string newest;
      for (const std::string& child : names) {
        if (guaranteed(specs.at(child), meter) > 0 && (newest.empty() || newer(child, newest))) newest = child;
      }
      const auto& quotas = specs.at(newest).quotas;
      const auto index = quota_for(specs.at(newest), meter) - quotas.data();
      const int64_t others = sum - guaranteed(specs.at(newest), meter);
      faults.emplace(
          newest,
          Fault{fmt::format("spec.quotas[{}].guaranteed", index),
                fmt::format("is {}, and queue {} is guaranteed {}, of which the others below it have {}: lower "
                            "it to {}, or raise that of {} to {}",
                            amount_text(meter, guaranteed(specs.at(newest), meter)), parent, amount_text(meter, has),
                            amount_text(meter, others), amount_text(meter, std::max<int64_t>(has - others, 0)), parent,
                            amount_text(meter, sum))});
    }
  }
}

QueueTable::Faults QueueTable::check(const Specs& specs) const {
  Faults faults;
  for (const auto& [name, spec] : specs) check_place(specs, name, faults);
  check_sums(specs, faults);
  return faults;
}

void QueueTable::settle() {
  if (settled_ == version_) return;
  settled_ = version_;
  Specs wanted;
  Faults unread;
  for (const auto& [name, object] : queues_) {
    if (object.queue) {
      wanted.emplace(name, object.queue->spec);
    } else {
      unread.emplace(name, Fault{object.queue.error().field, object.queue.error().message});
      // What it said before it could not be read any more, so that those below it have a parent.
      if (const auto known = in_force_.find(name); known != in_force_.end()) wanted.emplace(name, known->second);
    }
  }
  queue_faults_ = check(wanted);
  if (queue_faults_.empty()) {
    in_force_ = std::move(wanted);
    was_good_ = true;
  } else if (!was_good_) {
    Specs remembered;
    for (const auto& [name, object] : queues_) {
      if (object.queue && object.queue->in_force) remembered.emplace(name, *object.queue->in_force);
    }
    in_force_ = !remembered.empty() ? std::move(remembered) : std::move(wanted);
    for (Faults left = check(in_force_); !left.empty(); left = check(in_force_)) {
      for (const auto& [name, fault] : left) in_force_.erase(name);
    }
  }
  queue_faults_.merge(unread);
  children_.clear();
  for (const auto& [name, spec] : in_force_) children_[spec.parent].push_back(name);
  settle_reservations();
  collect_meters();
}

void QueueTable::settle_reservations() {
  reservation_faults_.clear();
  for (const auto& [name, object] : reservations_) {
    if (!object.reservation) {
      const Error& error = object.reservation.error();
      reservation_faults_.emplace(name, Fault{error.field, error.message});
    } else if (const std::string& queue = object.reservation->queue; !queue.empty() && !in_force_.contains(queue)) {
      reservation_faults_.emplace(
          name, Fault{"spec.queue", "there is no queue " + queue + " in force: create it, or name another"});
    }
  }
}

void QueueTable::collect_meters() {
  std::set<QuotaMeter> all;
  for (const auto& [name, spec] : in_force_) {
    for (const model::QueueQuota& quota : spec.quotas) all.insert(quota.meter);
  }
  for (const auto& [name, object] : reservations_) {
    if (reservation_faults_.contains(name)) continue;
    for (const auto& [meter, amount] : object.reservation->amounts) all.insert(meter);
  }
  meters_.assign(all.begin(), all.end());
}

const QueueTable::Fault* QueueTable::fault_of_queue(const std::string& name) const {
  const auto found = queue_faults_.find(name);
  return found == queue_faults_.end() ? nullptr : &found->second;
}

const QueueTable::Fault* QueueTable::fault_of_reservation(const std::string& name) const {
  const auto found = reservation_faults_.find(name);
  return found == reservation_faults_.end() ? nullptr : &found->second;
}

queueing::Amounts QueueTable::capacity(const Fleet& fleet, const WideBoxes& boxes) const {
  std::map<std::string, std::vector<FleetPart>> by_class;
  queueing::Amounts amounts;
  for (const QuotaMeter& meter : meters_) {
    if (model::wider_than_a_node(meter)) {
      amounts.push_back(boxes ? boxes(meter) : 0);
      continue;
    }
    const auto [parts, fresh] = by_class.try_emplace(meter.device_class);
    if (fresh) parts->second = fleet(meter.device_class);
    int64_t amount = 0;
    std::map<std::string, int64_t> on_node;
    for (const FleetPart& part : parts->second) {
      if (!meter.vendor.empty() && meter.vendor != part.vendor) continue;
      if (!meter.model.empty() && meter.model != part.model) continue;
      if (meter.counts == QuotaMeter::Counts::kDevices) amount += part.devices * 1000;
      if (meter.counts == QuotaMeter::Counts::kMemory) amount = capped_sum(amount, part.memory_bytes);
      if (meter.counts == QuotaMeter::Counts::kCores) amount += part.cores;
      if (meter.counts == QuotaMeter::Counts::kBoxes && !part.node.empty()) on_node[part.node] += part.devices;
    }
    for (const auto& [node, devices] : on_node) amount += devices / meter.box_devices;
    amounts.push_back(amount);
  }
  return amounts;
}

queueing::Config QueueTable::config(const Fleet& fleet, const WideBoxes& boxes) const {
  queueing::Config config;
  const queueing::Amounts there = capacity(fleet, boxes);
  queueing::QueueSpec root{.name = kRootQueue, .parent = "", .weight = 1, .quotas = {}};
  for (size_t m = 0; m < meters_.size(); ++m) {
    config.meters.push_back(meter_of(meters_[m]));
    // Devices that are missing for a while break no guarantee on paper; there is no room for it then.
    int64_t promised = 0;
    for (const auto& [name, spec] : in_force_) {
      if (spec.parent.empty()) promised = capped_sum(promised, guaranteed(spec, meters_[m]));
    }
    root.quotas[config.meters[m].name].guaranteed = std::max(there[m], promised);
  }
  config.queues.push_back(std::move(root));
  config.queues.push_back({.name = kUnassignedQueue, .parent = kRootQueue, .weight = 1, .quotas = {}});
  for (const auto& [name, spec] : in_force_) {
    queueing::QueueSpec queue{.name = name,
                              .parent = spec.parent.empty() ? std::string(kRootQueue) : spec.parent,
                              .weight = spec.weight,
                              .quotas = {}};
    for (const model::QueueQuota& quota : spec.quotas) {
      queue.quotas[model::meter_name(quota.meter)] = {
          .guaranteed = quota.guaranteed, .limit = quota.limit, .borrowing = quota.borrowing, .lending = quota.lending};
    }
    config.queues.push_back(std::move(queue));
    const auto object = queues_.find(name);
    if (object == queues_.end() || !object->second.queue || !object->second.queue->past) continue;
    const model::QueuePast& past = *object->second.queue->past;
    config.past[name] = {past.at, past.milli_device_seconds};
  }
  for (const auto& [name, object] : reservations_) {
    if (reservation_faults_.contains(name)) continue;
    queueing::Reservation reservation{name, object.reservation->start, object.reservation->end, {}};
    for (const auto& [meter, amount] : object.reservation->amounts)
      reservation.amounts[model::meter_name(meter)] = amount;
    config.reservations.push_back(std::move(reservation));
  }
  return config;
}

bool QueueTable::leaf(const std::string& queue) const {
  return queue == kUnassignedQueue || (in_force_.contains(queue) && !children_.contains(queue));
}

std::vector<std::string> QueueTable::leaves(const std::string& queue) const {
  std::vector<std::string> out;
  for (const auto& [name, spec] : in_force_) {
    if (leaf(name) && below(name, queue)) out.push_back(name);
  }
  return out;
}

bool QueueTable::below(const std::string& queue, const std::string& top) const {
  std::string at = queue;
  while (!at.empty() && at != top) {
    const auto spec = in_force_.find(at);
    at = spec == in_force_.end() ? std::string() : spec->second.parent;
  }
  return at == top;
}

bool QueueTable::takes(const model::AcceleratorQueueSpec& spec, const std::string& name_space) const {
  if (std::find(spec.namespaces.begin(), spec.namespaces.end(), name_space) != spec.namespaces.end()) return true;
  const auto labels = labels_.find(name_space);
  return spec.namespace_selector && labels != labels_.end() && model::matches(*spec.namespace_selector, labels->second);
}

Result<std::string> QueueTable::queue_of(const std::string& name_space, const std::string& label) const {
  const std::string field = fmt::format("metadata.labels[{}]", kQueueLabel);
  std::vector<std::string> named;
  std::vector<std::string> selected;
  for (const auto& [name, spec] : in_force_) {
    if (!leaf(name) || !takes(spec, name_space)) continue;
    const bool by_name = std::find(spec.namespaces.begin(), spec.namespaces.end(), name_space) != spec.namespaces.end();
    (by_name ? named : selected).push_back(name);
  }
  if (label.empty()) {
    if (!named.empty()) return named.front();
    return selected.empty() ? std::string(kUnassignedQueue) : selected.front();
  }
  named.insert(named.end(), selected.begin(), selected.end());
  if (std::find(named.begin(), named.end(), label) != named.end()) return label;
  const std::string others =
      named.empty() ? std::string("leave the label out") : fmt::format("write {}", fmt::join(named, " or "));
  if (!in_force_.contains(label))
    return fail(Code::kNotFound, fmt::format("there is no queue {}: {}", label, others), field);
  if (!leaf(label))
    return fail(Code::kInvalidArgument, fmt::format("queue {} has queues below it: {}", label, others), field);
  return fail(Code::kPermissionDenied,
              fmt::format("queue {} takes no work of namespace {}: {}, or add the namespace to that queue", label,
                          name_space, others),
              field);
}

std::optional<model::PlacementPolicy> QueueTable::policy_of(const std::string& queue) const {
  for (auto at = in_force_.find(queue); at != in_force_.end(); at = in_force_.find(at->second.parent)) {
    if (at->second.placement_policy) return at->second.placement_policy;
  }
  return std::nullopt;
}

model::PlacementPolicy QueueTable::policy_for(const model::ObjectMeta& pod) const {
  if (const auto own = model::pod_policy(pod)) return *own;
  constexpr auto kDefault = model::PlacementPolicy::kPacking;
  if (!any()) return kDefault;
  const auto label = pod.labels.find(std::string(kQueueLabel));
  const auto queue = queue_of(pod.name_space, label == pod.labels.end() ? "" : label->second);
  return queue ? policy_of(*queue).value_or(kDefault) : kDefault;
}

Result<void> QueueTable::may_use(const std::string& name, const std::string& name_space,
                                 const std::string& queue) const {
  const std::string field = fmt::format("metadata.labels[{}]", kReservationLabel);
  const auto found = reservations_.find(name);
  if (found == reservations_.end() || reservation_faults_.contains(name))
    return fail(Code::kNotFound, fmt::format("there is no reservation {} in force: leave the label out", name), field);
  const model::AcceleratorReservation& reservation = *found->second.reservation;
  const auto& spaces = reservation.namespaces;
  const bool space = spaces.empty() || std::find(spaces.begin(), spaces.end(), name_space) != spaces.end();
  const bool inside = reservation.queue.empty() || below(queue, reservation.queue);
  if (space && inside) return {};
  return fail(Code::kPermissionDenied,
              fmt::format("reservation {} is not for {}: leave the label out, or add it to the reservation", name,
                          space ? "queue " + queue : "namespace " + name_space),
              field);
}

}  // namespace heddle::engine
