// Events and accounts.
#include <fmt/format.h>

#include <algorithm>

#include "queueing/decay.h"
#include "queueing/queues_impl.h"

namespace heddle::queueing {

Queues::Queues(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Queues::~Queues() = default;
Queues::Queues(Queues&&) noexcept = default;
Queues& Queues::operator=(Queues&&) noexcept = default;

void Queues::Impl::advance_to(Time time) {
  if (time <= now) return;
  const Duration elapsed = time - now;
  for (Queue& queue : queues) queue.past = advance(queue.past, queue.cost, elapsed, half_life);
  now = time;
}

LeafOrder Queues::Impl::leaf_order(const Entry& entry) {
  return {-static_cast<int64_t>(entry.spec.priority), entry.spec.submitted.unix_nanos, entry.spec.id};
}

const Entry* Queues::Impl::find(const std::string& id) const {
  const auto found = entries.find(id);
  return found == entries.end() ? nullptr : &found->second;
}

Entry* Queues::Impl::find(const std::string& id) {
  const auto found = entries.find(id);
  return found == entries.end() ? nullptr : &found->second;
}

bool Queues::Impl::starving(const Entry& entry) const {
  return patience && now - entry.spec.submitted >= *patience;
}

bool Queues::Impl::goes_first(size_t a, size_t b) const {
  const auto key = [&](const Queue& queue) {
    return static_cast<Int128>(queue.past) + steady_state(queue.cost, half_life);
  };
  const Int128 left = key(queues[a]) * queues[b].weight;
  const Int128 right = key(queues[b]) * queues[a].weight;
  return left != right ? left < right : queues[a].name < queues[b].name;
}

// What runs and is held, at the leaf and above it.
void Queues::Impl::charge(Entry& entry, int64_t sign) {
  for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) queues[q].cost += sign * entry.cost;
  for (size_t m = 0; m < meters.size(); ++m) {
    const int64_t amount = sign * entry.demand[m];
    if (amount == 0) continue;
    for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) {
      Queue& queue = queues[q];
      queue.used[m] += amount;
      int64_t below = queue.leaf() ? queue.used[m] : 0;
      for (const size_t child : queue.children) below += queues[child].taken[m];
      queue.taken[m] = std::max(below, queue.bounds[m].withheld);
    }
  }
  for (size_t r = 0; r < reservations.size(); ++r) {
    if (entry.spec.reservation != reservations[r].name) continue;
    for (size_t m = 0; m < meters.size(); ++m) drawn[r][m] += sign * entry.demand[m];
  }
}

bool Queues::Impl::fits_guarantee(const Entry& entry) const {
  return within_guarantee(entry, queues[entry.leaf].entitled);
}

// Each part of what it asks for is guaranteed by some meter, and no guarantee is exceeded.
bool Queues::Impl::within_guarantee(const Entry& entry, const Amounts& entitled) const {
  if (entry.spec.growth) return false;
  const std::vector<Bounds>& bounds = queues[entry.leaf].bounds;
  for (size_t m = 0; m < meters.size(); ++m) {
    if (bounds[m].promised && entry.demand[m] > 0 && entry.demand[m] > bounds[m].guaranteed - entitled[m]) return false;
  }
  return !entry.counted_by.empty() &&
         std::all_of(entry.counted_by.begin(), entry.counted_by.end(), [&](const std::vector<size_t>& counting) {
           return std::any_of(counting.begin(), counting.end(), [&](size_t m) { return bounds[m].promised; });
         });
}

void Queues::Impl::mark(Entry& entry) {
  if (!fits_guarantee(entry)) return;
  entry.entitled = true;
  ++queues[entry.leaf].own;
  add(queues[entry.leaf].entitled, entry.demand);
}

// Room came up within the guarantee: what borrows here is entitled, the oldest first.
void Queues::Impl::promote(size_t leaf) {
  const Queue& queue = queues[leaf];
  bool room = false;
  for (size_t m = 0; m < meters.size(); ++m) {
    room = room || (queue.bounds[m].promised && queue.bounds[m].guaranteed > queue.entitled[m]);
  }
  if (!room || queue.used == queue.entitled) return;
  for (const auto& [order, id] : queue.active) {
    Entry& entry = entries.at(id);
    if (!entry.entitled) mark(entry);
  }
}

void Queues::Impl::activate(Entry& entry, Phase phase) {
  if (entry.phase == Phase::kWaiting) {
    queues[entry.leaf].waiting.erase(leaf_order(entry));
    by_submission.erase({entry.spec.submitted.unix_nanos, entry.spec.id});
    entry.order = next_order++;
  }
  if (!active(entry)) {
    charge(entry, 1);
    queues[entry.leaf].active.emplace(entry.order, entry.spec.id);
    mark(entry);
  }
  entry.phase = phase;
}

void Queues::Impl::discharge(Entry& entry) {
  charge(entry, -1);
  queues[entry.leaf].active.erase(entry.order);
  if (!std::exchange(entry.entitled, false)) return;
  --queues[entry.leaf].own;
  subtract(queues[entry.leaf].entitled, entry.demand);
}

void Queues::Impl::deactivate(Entry& entry) {
  if (!active(entry)) return;
  discharge(entry);
  promote(entry.leaf);
}

std::map<size_t, Amounts> Queues::Impl::beyond(const std::string& preemptor, const std::set<std::string>& ids) const {
  std::map<size_t, Amounts> amounts;
  for (const std::string& id : ids) {
    const Entry& victim = entries.at(id);
    for (size_t q = victim.leaf; q != kNone; q = queues[q].parent) {
      add(amounts.try_emplace(q, meters.size(), 0).first->second, victim.demand);
    }
  }
  const Entry* held = find(preemptor);
  for (auto& [q, amount] : amounts) {
    bool above = false;
    for (size_t up = held == nullptr ? kNone : held->leaf; up != kNone; up = queues[up].parent)
      above = above || up == q;
    // It starts when all of them have gone, so what is held for it is not in use yet.
    if (above && held->phase == Phase::kHeld) subtract(amount, held->demand);
    for (int64_t& each : amount) each = std::max<int64_t>(each, 0);
  }
  return amounts;
}

void Queues::Impl::settle_leavers(const std::string& preemptor) {
  const auto known = leavers.find(preemptor);
  if (known == leavers.end()) return;
  for (const auto& [q, amount] : known->second.beyond) subtract(queues[q].leaving, amount);
  if (known->second.ids.empty()) {
    leavers.erase(known);
    return;
  }
  known->second.beyond = beyond(preemptor, known->second.ids);
  for (const auto& [q, amount] : known->second.beyond) add(queues[q].leaving, amount);
}

void Queues::Impl::leave_no_more(Entry& entry) {
  if (entry.leaving_for.empty()) return;
  const std::string preemptor = std::exchange(entry.leaving_for, {});
  leavers[preemptor].ids.erase(entry.spec.id);
  settle_leavers(preemptor);
}

void Queues::Impl::assess(Entry& entry) const {
  entry.demand = measure(meters, entry.spec.portions);
  entry.counted_by.clear();
  entry.cost = 0;
  std::set<DeviceKind> kinds;
  for (const Portion& portion : entry.spec.portions) {
    entry.counted_by.emplace_back();
    // What is a part of a box counts with it, though another portion has its number.
    Portion whole = portion;
    if (!whole.shape.empty()) whole.boxes = std::max<int64_t>(whole.boxes, 1);
    const Amounts alone = measure(meters, {whole});
    for (size_t m = 0; m < meters.size(); ++m) {
      if (alone[m] > 0) entry.counted_by.back().push_back(m);
    }
    entry.cost += portion.milli_devices;
    if (portion.milli_devices > 0) kinds.insert({portion.vendor, portion.model});
  }
  entry.kinds.assign(kinds.begin(), kinds.end());
}

std::tuple<bool, int64_t, LeafOrder> Queues::Impl::place(const Entry& entry) const {
  const bool starves = starving(entry);
  return {!starves, starves ? entry.spec.submitted.unix_nanos : 0, leaf_order(entry)};
}

Result<Entry*> Queues::Impl::enter(Workload workload) {
  const std::string field = "workload " + workload.id;
  const auto queue = by_name.find(workload.queue);
  if (queue == by_name.end()) return fail(Code::kInvalidArgument, "there is no queue " + workload.queue, field);
  if (!queues[queue->second].leaf()) {
    return fail(Code::kInvalidArgument, fmt::format("queue {} has queues below it; name one of those", workload.queue),
                field);
  }
  const bool known = std::any_of(reservations.begin(), reservations.end(),
                                 [&](const Reservation& r) { return r.name == workload.reservation; });
  if (!workload.reservation.empty() && !known) {
    return fail(Code::kInvalidArgument, "there is no reservation " + workload.reservation, field);
  }
  Entry entry;
  for (const Portion& portion : workload.portions) {
    const bool negative =
        portion.milli_devices < 0 || portion.memory_bytes < 0 || portion.cores < 0 || portion.boxes < 0;
    if (negative) return fail(Code::kInvalidArgument, "amounts must not be negative", field);
  }
  entry.leaf = queue->second;
  std::string id = workload.id;
  entry.spec = std::move(workload);
  assess(entry);
  const auto [place, added] = entries.emplace(std::move(id), std::move(entry));
  if (!added) return fail(Code::kAlreadyExists, "is there already", field);
  queues[place->second.leaf].waiting.insert(leaf_order(place->second));
  by_submission.emplace(place->second.spec.submitted.unix_nanos, place->second.spec.id);
  return &place->second;
}

Result<void> Queues::submit(Workload workload, Time now) {
  impl_->advance_to(now);
  HEDDLE_TRY(const Entry* added, impl_->enter(std::move(workload)));
  static_cast<void>(added);
  return {};
}

void Queues::restate(const std::string& id, std::vector<Portion> portions) {
  Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase != Phase::kWaiting) return;
  entry->spec.portions = std::move(portions);
  impl_->assess(*entry);
}

void Queues::revise(const std::string& id, std::vector<Portion> portions, Time now) {
  impl_->advance_to(now);
  Entry* entry = impl_->find(id);
  if (entry == nullptr || !Impl::active(*entry)) return;
  impl_->discharge(*entry);
  entry->spec.portions = std::move(portions);
  impl_->assess(*entry);
  impl_->charge(*entry, 1);
  impl_->queues[entry->leaf].active.emplace(entry->order, id);
  impl_->mark(*entry);
  impl_->promote(entry->leaf);
  impl_->settle_leavers(id);
}

std::optional<Reason> Queues::refusal_of(const std::string& id, const std::vector<Portion>& portions, Time now) {
  impl_->advance_to(now);
  Entry* entry = impl_->find(id);
  if (entry == nullptr || !Impl::active(*entry)) return std::nullopt;
  Entry wanted = *entry;
  wanted.spec.portions = portions;
  impl_->assess(wanted);
  bool more = false;
  for (size_t m = 0; m < impl_->meters.size(); ++m) more = more || wanted.demand[m] > entry->demand[m];
  if (!more) return std::nullopt;
  impl_->charge(*entry, -1);
  auto reason = impl_->refusal(wanted);
  impl_->charge(*entry, 1);
  return reason;
}

Result<void> Queues::adopt(Workload workload, Time started, Time now) {
  impl_->advance_to(now);
  HEDDLE_TRY(Entry * added, impl_->enter(std::move(workload)));
  impl_->activate(*added, Phase::kRunning);
  added->started = started;
  return {};
}

void Queues::start(const std::string& id, Time now) {
  impl_->advance_to(now);
  if (Entry* entry = impl_->find(id); entry != nullptr && entry->phase != Phase::kRunning) {
    impl_->activate(*entry, Phase::kRunning);
    entry->started = impl_->now;
    impl_->settle_leavers(id);
  }
}

void Queues::hold(const std::string& id, Time now) {
  impl_->advance_to(now);
  if (Entry* entry = impl_->find(id); entry != nullptr && entry->phase == Phase::kWaiting) {
    impl_->activate(*entry, Phase::kHeld);
    entry->started = impl_->now;
  }
}

void Queues::evict_for(const std::string& id, const std::vector<std::string>& victims, Time now) {
  impl_->advance_to(now);
  Entry* entry = impl_->find(id);
  if (entry == nullptr || (entry->phase != Phase::kWaiting && entry->phase != Phase::kRunning)) return;
  std::set<size_t> leaves;
  for (const std::string& other : victims) {
    Entry* victim = impl_->find(other);
    if (victim == nullptr || victim->phase != Phase::kRunning) continue;
    impl_->discharge(*victim);
    victim->phase = Phase::kLeaving;
    victim->leaving_for = id;
    impl_->leavers[id].ids.insert(other);
    leaves.insert(victim->leaf);
  }
  // Before anything else of its queue may use what its victims leave.
  if (entry->phase == Phase::kWaiting) {
    impl_->activate(*entry, Phase::kHeld);
    entry->started = impl_->now;
  }
  for (const size_t leaf : leaves) impl_->promote(leaf);
  impl_->settle_leavers(id);
}

void Queues::stay(const std::string& id, Time now) {
  impl_->advance_to(now);
  Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase != Phase::kLeaving) return;
  impl_->leave_no_more(*entry);
  impl_->activate(*entry, Phase::kRunning);
}

void Queues::requeue(const std::string& id, Time now) {
  impl_->advance_to(now);
  Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase == Phase::kWaiting) return;
  impl_->deactivate(*entry);
  impl_->leave_no_more(*entry);
  entry->phase = Phase::kWaiting;
  impl_->settle_leavers(id);
  impl_->queues[entry->leaf].waiting.insert(Impl::leaf_order(*entry));
  impl_->by_submission.emplace(entry->spec.submitted.unix_nanos, id);
}

void Queues::remove(const std::string& id, Time now) {
  impl_->advance_to(now);
  Entry* entry = impl_->find(id);
  if (entry == nullptr) return;
  impl_->deactivate(*entry);
  impl_->leave_no_more(*entry);
  if (entry->phase == Phase::kWaiting) {
    impl_->queues[entry->leaf].waiting.erase(Impl::leaf_order(*entry));
    impl_->by_submission.erase({entry->spec.submitted.unix_nanos, id});
  }
  impl_->entries.erase(id);
  impl_->settle_leavers(id);
}

std::optional<Phase> Queues::phase(const std::string& id) const {
  const Entry* entry = impl_->find(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->phase);
}

bool Queues::entitled(const std::string& id) const {
  const Entry* entry = impl_->find(id);
  return entry != nullptr && entry->entitled;
}

bool Queues::would_be_entitled(const std::string& id, const std::vector<std::string>& without) const {
  const Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase != Phase::kWaiting) return false;
  Amounts entitled = impl_->queues[entry->leaf].entitled;
  for (const std::string& other : without) {
    const Entry* gone = impl_->find(other);
    if (gone != nullptr && gone->entitled && gone->leaf == entry->leaf) subtract(entitled, gone->demand);
  }
  return impl_->within_guarantee(*entry, entitled);
}

Amounts Queues::keep_intact(const std::string& id) const {
  const Entry* entry = impl_->find(id);
  return entry == nullptr ? Amounts(impl_->meters.size(), 0) : impl_->keep_intact(*entry);
}

const Workload* Queues::workload(const std::string& id) const {
  const Entry* entry = impl_->find(id);
  return entry == nullptr ? nullptr : &entry->spec;
}

std::optional<Reason> Queues::refusal_without(const std::string& id, const std::vector<std::string>& gone, Time now) {
  const Entry* entry = impl_->find(id);
  return entry == nullptr ? std::nullopt : refusal_without(id, entry->spec.portions, gone, now);
}

std::optional<Reason> Queues::refusal_without(const std::string& id, const std::vector<Portion>& instead,
                                              const std::vector<std::string>& gone, Time now) {
  impl_->advance_to(now);
  const Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase != Phase::kWaiting) return std::nullopt;
  std::optional<Entry> other;
  if (instead != entry->spec.portions) {
    other = *entry;
    other->spec.portions = instead;
    impl_->assess(*other);
  }
  std::vector<Entry*> taken_out;
  for (const std::string& one : gone) {
    Entry* victim = impl_->find(one);
    if (victim == nullptr || !Impl::active(*victim)) continue;
    impl_->charge(*victim, -1);
    taken_out.push_back(victim);
  }
  auto reason = impl_->quota_refusal(other ? *other : *entry);
  for (Entry* victim : taken_out) impl_->charge(*victim, 1);
  return reason;
}

std::vector<std::string> Queues::below(const std::string& id) const {
  std::vector<std::string> found;
  const Entry* entry = impl_->find(id);
  if (entry == nullptr) return found;
  for (const auto& [order, other] : impl_->queues[entry->leaf].active) {
    if (impl_->entries.at(other).spec.priority < entry->spec.priority) found.push_back(other);
  }
  return found;
}

bool Queues::bounds_kinds(const std::string& queue) const {
  const auto found = impl_->by_name.find(queue);
  for (size_t q = found == impl_->by_name.end() ? kNone : found->second; q != kNone; q = impl_->queues[q].parent) {
    for (size_t m = 0; m < impl_->meters.size(); ++m) {
      const Meter& meter = impl_->meters[m];
      const Bounds& bounds = impl_->queues[q].bounds[m];
      const bool bounded = bounds.limit != kUnbounded || bounds.borrowing != kUnbounded;
      if (bounded && !(meter.vendor.empty() && meter.model.empty())) return true;
    }
  }
  return false;
}

const std::vector<Meter>& Queues::meters() const {
  return impl_->meters;
}

Amounts Queues::usage(const std::string& queue) const {
  const auto found = impl_->by_name.find(queue);
  return found == impl_->by_name.end() ? Amounts(impl_->meters.size(), 0) : impl_->queues[found->second].used;
}

Amounts Queues::entitled_usage(const std::string& queue) const {
  const auto found = impl_->by_name.find(queue);
  return found == impl_->by_name.end() ? Amounts(impl_->meters.size(), 0) : impl_->queues[found->second].entitled;
}

size_t Queues::active(const std::string& queue) const {
  const auto found = impl_->by_name.find(queue);
  return found == impl_->by_name.end() ? 0 : impl_->queues[found->second].active.size();
}

size_t Queues::borrowers(const std::string& queue) const {
  const auto found = impl_->by_name.find(queue);
  if (found == impl_->by_name.end()) return 0;
  const Queue& leaf = impl_->queues[found->second];
  return leaf.active.size() - leaf.own;
}

const Amounts* Queues::demand(const std::string& id) const {
  const Entry* entry = impl_->find(id);
  return entry == nullptr ? nullptr : &entry->demand;
}

std::map<std::string, PastUsage> Queues::past(Time now) const {
  std::map<std::string, PastUsage> result;
  const Time at = std::max(now, impl_->now);
  for (const Queue& queue : impl_->queues) {
    result[queue.name] = {at, advance(queue.past, queue.cost, at - impl_->now, impl_->half_life)};
  }
  return result;
}

std::vector<std::string> Queues::violations() const {
  std::vector<std::string> found;
  const std::vector<Queue>& queues = impl_->queues;
  std::vector<Amounts> used(queues.size(), Amounts(impl_->meters.size(), 0));
  std::vector<Amounts> entitled = used;
  std::vector<Amounts> leaving = used;
  for (const auto& [preemptor, leavers] : impl_->leavers) {
    for (const auto& [q, amount] : impl_->beyond(preemptor, leavers.ids)) add(leaving[q], amount);
  }
  for (const auto& [id, entry] : impl_->entries) {
    if (!Impl::active(entry)) continue;
    for (size_t q = entry.leaf; q != kNone; q = queues[q].parent) add(used[q], entry.demand);
    if (entry.entitled) add(entitled[entry.leaf], entry.demand);
  }
  for (size_t q = 0; q < queues.size(); ++q) {
    const Queue& queue = queues[q];
    const auto tell = [&](size_t m, const char* what) {
      found.push_back(fmt::format("queue {}: {}: {}", queue.name, impl_->meters[m].name, what));
    };
    for (size_t m = 0; m < impl_->meters.size(); ++m) {
      const Bounds& bounds = queue.bounds[m];
      const bool bounded = bounds.guaranteed != kUnbounded;
      if (used[q][m] != queue.used[m]) tell(m, "the sum of what runs is not the usage");
      if (queue.leaf() && entitled[q][m] != queue.entitled[m]) tell(m, "the sum of the entitled is not their usage");
      if (leaving[q][m] != queue.leaving[m]) tell(m, "the sum of what leaves is not what is counted for it");
      const int64_t in_use = used[q][m] + leaving[q][m];
      if (in_use > bounds.limit) tell(m, "over its limit");
      if (bounded && bounds.borrowing < in_use - bounds.guaranteed) tell(m, "borrows too much");
      if (queue.leaf() && bounds.promised && entitled[q][m] > bounds.guaranteed)
        tell(m, "entitled beyond its guarantee");
      if (q == 0 && bounded && queue.taken[m] > bounds.guaranteed) tell(m, "more in use than there is");
    }
  }
  return found;
}

}  // namespace heddle::queueing
