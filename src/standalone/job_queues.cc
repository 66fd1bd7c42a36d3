#include "standalone/job_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/json_read.h"
#include "engine/demand.h"
#include "engine/written_fields.h"

namespace heddle::standalone {
namespace {

using Json = nlohmann::json;

constexpr const char* kFlag = "--queues";
constexpr const char* kVersion = "heddle.dev/v1alpha1";
constexpr const char* kKind = "AcceleratorQueue";
constexpr const char* kReservation = "AcceleratorReservation";
constexpr const char* kAllCards = "(cards)";

tl::unexpected<Error> wrong(const std::string& where, const std::string& what) {
  return fail(Code::kInvalidArgument, fmt::format("{}: {}", where, what), kFlag);
}

Result<void> collect(const Json& object, const std::string& where, Json& into) {
  if (object.is_array()) return wrong(where, "is a list: write each object as a document of its own, with --- between");
  const std::string kind = json_text(object, "kind");
  const bool reservations = kind == std::string(kReservation) + "List";
  if (kind == "List" || reservations || kind == std::string(kKind) + "List") {
    const auto items = object.find("items");
    if (items == object.end() || !items->is_array()) return wrong(where, "items: must be a list");
    for (size_t i = 0; i < items->size(); ++i) {
      Json item = (*items)[i];
      if (kind != "List" && item.is_object() && !item.contains("kind"))
        item["kind"] = reservations ? kReservation : kKind;
      HEDDLE_CHECK_OK(collect(item, fmt::format("{}: items[{}]", where, i), into));
    }
    return {};
  }
  if (!object.is_object()) return wrong(where, fmt::format("is no object; write {} or {}", kKind, kReservation));
  if (kind.empty()) return wrong(where, fmt::format("kind: is missing; write {} or {}", kKind, kReservation));
  if (kind != kKind && kind != kReservation) {
    return wrong(where, fmt::format("kind: {} is not read here; write {} or {}", kind, kKind, kReservation));
  }
  if (const std::string version = json_text(object, "apiVersion"); !version.empty() && version != kVersion) {
    return wrong(where, fmt::format("apiVersion: {} is not read; write {}", version, kVersion));
  }
  const std::string text = dump_json(object);
  const auto known = kind == kKind ? engine::check_queue_fields(text) : engine::check_reservation_fields(text);
  if (!known) {
    const std::string name = object.contains("metadata") ? json_text(object.at("metadata"), "name") : std::string();
    return wrong(name.empty() ? where : fmt::format("{} {}", kind == kKind ? "queue" : "reservation", name),
                 known.error().text());
  }
  into.push_back(object);
  return {};
}

// Here is one machine, and no levels above it.
Result<void> of_one_machine(const model::QuotaMeter& meter, const std::string& where) {
  if (!model::wider_than_a_node(meter)) return {};
  return wrong(where, fmt::format("counts {}, which lie on several machines, and this is one: leave {} out, and write "
                                  "boxDevices of 2 to 64",
                                  model::meter_name(meter), meter.box_shape.empty() ? "boxLevel" : "boxShape"));
}

Result<void> put_queue(const std::string& text, engine::QueueTable& table) {
  auto queue = engine::read_queue_object(text);
  if (!queue) return wrong("an AcceleratorQueue", queue.error().text());
  const std::string name = queue->meta.name;
  if (name.empty()) return wrong("an AcceleratorQueue", "metadata.name: must be set");
  if (!queue->queue) return wrong("queue " + name, queue->queue.error().text());
  if (name == engine::kUnassignedQueue) {
    return wrong("queue " + name, "metadata.name: is the queue of jobs that no other takes; choose another name");
  }
  if (table.queues().contains(name)) return wrong("queue " + name, "metadata.name: is there twice; keep one");
  for (const model::QueueQuota& quota : queue->queue->spec.quotas)
    HEDDLE_CHECK_OK(of_one_machine(quota.meter, "queue " + name + ": spec.quotas"));
  queue->queue->past.reset();  // of a cluster
  table.upsert(std::move(*queue));
  return {};
}

Result<void> put_reservation(const std::string& text, engine::QueueTable& table) {
  auto object = engine::read_reservation_object(text);
  if (!object) return wrong("an AcceleratorReservation", object.error().text());
  const std::string name = object->meta.name;
  if (name.empty()) return wrong("an AcceleratorReservation", "metadata.name: must be set");
  if (!object->reservation) return wrong("reservation " + name, object->reservation.error().text());
  if (table.reservations().contains(name))
    return wrong("reservation " + name, "metadata.name: is there twice; keep one");
  for (const auto& [meter, amount] : object->reservation->amounts)
    HEDDLE_CHECK_OK(of_one_machine(meter, "reservation " + name + ": spec.amounts"));
  table.upsert(std::move(*object));
  return {};
}

// The objects of the array, in the table and in force.
Result<void> fill(const Json& objects, engine::QueueTable& table) {
  for (const Json& object : objects) {
    const std::string text = dump_json(object);
    HEDDLE_CHECK_OK(json_text(object, "kind") == kReservation ? put_reservation(text, table) : put_queue(text, table));
  }
  table.settle();
  for (const auto& [name, object] : table.reservations()) {
    if (const auto* fault = table.fault_of_reservation(name)) return wrong("reservation " + name, fault->text());
  }
  for (const auto& [name, object] : table.queues()) {
    if (const auto* fault = table.fault_of_queue(name)) return wrong("queue " + name, fault->text());
  }
  return {};
}

bool names_any(const model::AcceleratorQueueSpec& spec, const std::vector<std::string>& names) {
  return std::any_of(spec.namespaces.begin(), spec.namespaces.end(), [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
}

int32_t priority_of(const Job& job) {
  return static_cast<int32_t>(std::clamp<int64_t>(job.request.priority, -kMaxPriority, kMaxPriority));
}

}  // namespace

Result<std::string> check_queues(const std::vector<std::string>& documents) {
  Json objects = Json::array();
  for (size_t i = 0; i < documents.size(); ++i) {
    HEDDLE_CHECK_OK(collect(parse_json(documents[i]), fmt::format("document {}", i + 1), objects));
  }
  if (objects.empty()) return std::string();
  engine::QueueTable table;
  HEDDLE_CHECK_OK(fill(objects, table));
  return dump_json(objects);
}

std::vector<std::string> reserved_beyond(const std::vector<std::string>& documents,
                                         const std::vector<model::ResourceSlice>& slices) {
  const auto text = check_queues(documents);
  if (!text || text->empty()) return {};
  engine::State state;
  state.upsert_class(device_class());
  for (const auto& slice : slices) state.upsert_slice(slice);
  // Without the queues, whose guarantees may promise more than there is.
  engine::QueueTable table;
  for (Json object : parse_json(*text)) {
    if (json_text(object, "kind") != kReservation) continue;
    object["spec"].erase("queue");
    object["spec"]["namespaces"] = {"anybody"};
    if (!put_reservation(dump_json(object), table)) return {};
  }
  table.settle();
  const queueing::Config config = table.config([&](const std::string& name) { return engine::fleet_of(state, name); });
  std::vector<std::string> lines;
  for (const queueing::Reservation& reservation : config.reservations) {
    for (const auto& meter : config.meters) {
      const auto amount = reservation.amounts.find(meter.name);
      const int64_t there = config.queues.front().quotas.at(meter.name).guaranteed.value_or(0);
      if (amount == reservation.amounts.end() || amount->second <= there) continue;
      lines.push_back(
          fmt::format("reservation {} keeps {} free, and there are {} here: until it is over only jobs with "
                      "--reservation {}, or with a "
                      "--deadline before it starts, get any",
                      reservation.name, queueing::amount_text(meter, amount->second),
                      queueing::amount_text(meter, there), reservation.name));
    }
  }
  return lines;
}

Result<JobQueues> JobQueues::make(const std::string& text, Duration patience) {
  const Json objects = parse_json(text);
  if (!objects.is_array()) return fail(Code::kInternal, "the queues of the ledger cannot be read");
  JobQueues queues(patience);
  if (auto filled = fill(objects, queues.table_); !filled) {
    return fail(Code::kInternal, "the queues of the ledger cannot be used any more: " + filled.error().message +
                                     "; start once with --queues FILE, or --queues none");
  }
  return queues;
}

std::string JobQueues::key_of(int64_t job) {
  return fmt::format("{:019}", job);
}

int64_t JobQueues::job_of(const std::string& key) {
  int64_t id = 0;
  std::from_chars(key.data(), key.data() + key.size(), id);
  return id;
}

Time JobQueues::at_least(Time now) {
  if (last_ < now) last_ = now;
  return last_;
}

bool JobQueues::stale(const engine::State& state) const {
  std::vector<engine::FleetPart> fleet = engine::fleet_of(state);
  for (engine::FleetPart& part : fleet) part.free = 0;
  return fleet != fleet_;
}

queueing::Config JobQueues::config(const engine::State& state) const {
  queueing::Config config = table_.config([&](const std::string& name) { return engine::fleet_of(state, name); });
  config.patience = patience_;
  // All cards are in each other's way, whatever the quotas count: so a job that starves holds back every other one.
  queueing::Meter cards;
  cards.name = kAllCards;
  config.meters.push_back(std::move(cards));
  return config;
}

Result<void> JobQueues::renew(const engine::State& state, const std::vector<vendors::Card>& cards,
                              const std::vector<Job>& jobs, const Past& past, Time now) {
  queueing::Config made = config(state);
  for (const auto& [name, one] : past) made.past[name] = {one.at, one.milli_device_seconds};
  if (tree_) {
    for (const auto& [name, one] : tree_->queues.past(now)) made.past[name] = one;
  }
  // Of queues that are gone nothing is kept.
  std::erase_if(made.past, [&](const auto& entry) {
    return std::none_of(made.queues.begin(), made.queues.end(),
                        [&](const auto& queue) { return queue.name == entry.first; });
  });
  HEDDLE_TRY(auto tree, queueing::Queues::make(std::move(made)));
  tree_ = std::make_unique<Tree>(std::move(tree));
  fleet_ = engine::fleet_of(state);
  for (engine::FleetPart& part : fleet_) part.free = 0;
  asked_.clear();
  std::vector<const Job*> running;
  for (const Job& job : jobs) {
    if (job.allocation) running.push_back(&job);
  }
  std::stable_sort(running.begin(), running.end(), [](const Job* a, const Job* b) {
    return a->granted.value_or(Time{}) < b->granted.value_or(Time{});
  });
  for (const Job* job : running) {
    HEDDLE_CHECK_OK(tree_->queues.adopt(workload(*job, demand(state, cards, *job)), job->granted.value_or(now), now));
    note_running(*job);
  }
  for (const Job& job : jobs) {
    if (job.state == JobState::kWaiting) HEDDLE_CHECK_OK(add(state, cards, job, now));
  }
  return {};
}

Result<std::string> JobQueues::queue_for(const Owner& owner, const std::string& wanted) const {
  if (wanted.empty()) {
    for (const auto& names : {std::vector<std::string>{owner.name}, owner.groups}) {
      for (const auto& [name, spec] : table_.in_force()) {
        if (table_.leaf(name) && names_any(spec, names)) return name;
      }
    }
    return std::string(engine::kUnassignedQueue);
  }
  if (wanted == engine::kUnassignedQueue) return wanted;
  const auto found = table_.in_force().find(wanted);
  const std::string others = fmt::format("write one of {}", fmt::join(leaves(), ", "));
  if (found == table_.in_force().end()) {
    return fail(Code::kNotFound, fmt::format("there is no queue '{}': {}", wanted, others), "--queue");
  }
  if (!table_.leaf(wanted)) {
    return fail(Code::kInvalidArgument, fmt::format("queue '{}' has queues below it: {}", wanted, others), "--queue");
  }
  const std::vector<std::string>& named = found->second.namespaces;
  if (named.empty() || owner.uid == 0 || names_any(found->second, {owner.name}) ||
      names_any(found->second, owner.groups)) {
    return wanted;
  }
  return fail(Code::kPermissionDenied,
              fmt::format("queue '{}' is for {}, and {} is none of them", wanted, fmt::join(named, ", "), owner.name),
              "--queue");
}

Result<void> JobQueues::check_reservation(const Owner& owner, const std::string& queue,
                                          const std::string& wanted) const {
  const auto& all = table_.reservations();
  const auto found = all.find(wanted);
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const auto& [name, object] : all) names.push_back(name);
    return fail(Code::kNotFound,
                names.empty()
                    ? std::string("there are no reservations here: leave it out")
                    : fmt::format("there is no reservation '{}': write one of {}", wanted, fmt::join(names, ", ")),
                "--reservation");
  }
  const model::AcceleratorReservation& reservation = *found->second.reservation;
  std::vector<std::string> names = owner.groups;
  names.push_back(owner.name);
  if (owner.uid == 0) names.insert(names.end(), reservation.namespaces.begin(), reservation.namespaces.end());
  const auto may = [&](const std::string& name) { return table_.may_use(wanted, name, queue).has_value(); };
  if (std::any_of(names.begin(), names.end(), may)) return {};
  std::string whose = reservation.queue.empty() ? "" : "queue " + reservation.queue;
  if (!reservation.namespaces.empty()) {
    whose += fmt::format("{}{}", whose.empty() ? "" : " and ", fmt::join(reservation.namespaces, ", "));
  }
  return fail(
      Code::kPermissionDenied,
      fmt::format("reservation '{}' is for {}, and this is a job of {} in queue {}", wanted, whose, owner.name, queue),
      "--reservation");
}

std::string JobQueues::queue_of(const Job& job) const {
  if (!job.request.queue.empty() && table_.leaf(job.request.queue)) return job.request.queue;
  return queue_for(job.owner, {}).value_or(std::string(engine::kUnassignedQueue));
}

std::vector<queueing::Portion> JobQueues::demand(const engine::State& state, const std::vector<vendors::Card>& cards,
                                                 const Job& job) const {
  std::vector<queueing::Portion> portions;
  if (const auto spec = claim_spec(job.request, cards)) {
    if (job.allocation) {
      portions = engine::granted(state, *spec, *job.allocation);
    } else if (auto asked = engine::asked(state, {fmt::format("job {}", job.id), job.uid, *spec})) {
      portions = std::move(*asked);
    }
  }
  if (portions.empty()) {
    // Its cards, or its model, are not there any more: what it holds is known by number alone.
    queueing::Portion whole;
    whole.milli_devices = job.request.count * 1000;
    portions.push_back(std::move(whole));
  }
  for (queueing::Portion& portion : portions) table_.fill_boxes(portion);
  return portions;
}

queueing::Workload JobQueues::workload(const Job& job, std::vector<queueing::Portion> portions) const {
  queueing::Workload out;
  out.id = key_of(job.id);
  out.queue = queue_of(job);
  out.priority = priority_of(job);
  out.submitted = job.submitted;
  out.portions = std::move(portions);
  if (job.request.deadline_seconds) out.runtime = Duration::seconds(*job.request.deadline_seconds);
  // Of one that is not there any more it is no part, and runs as others do.
  if (table_.reservations().contains(job.request.reservation)) out.reservation = job.request.reservation;
  return out;
}

std::optional<engine::Reason> JobQueues::never(const engine::State& state, const std::vector<vendors::Card>& cards,
                                               const Job& job, Time now) const {
  queueing::Config nothing_else = config(state);
  queueing::Workload alone = workload(job, demand(state, cards, job));
  // Other reservations end; its own begins.
  std::erase_if(nothing_else.reservations, [&](const auto& other) { return other.name != alone.reservation; });
  for (const queueing::Reservation& own : nothing_else.reservations) now = std::max(now, own.start);
  auto empty = queueing::Queues::make(std::move(nothing_else));
  if (!empty) return std::nullopt;
  const std::string id = alone.id;
  if (!empty->submit(std::move(alone), now)) return std::nullopt;
  auto refusal = empty->refusal(id, now);
  if (!refusal) return std::nullopt;
  return engine::Reason{std::move(refusal->code), std::move(refusal->message)};
}

Result<void> JobQueues::add(const engine::State& state, const std::vector<vendors::Card>& cards, const Job& job,
                            Time now) {
  std::vector<queueing::Portion> portions = demand(state, cards, job);
  HEDDLE_CHECK_OK(tree_->queues.submit(workload(job, portions), now));
  asked_[job.id] = std::move(portions);
  return {};
}

void JobQueues::remove(const Job& job, Time now) {
  asked_.erase(job.id);
  const std::string id = key_of(job.id);
  if (!tree_) return;
  tree_->preemptions.cancel(id, now);
  tree_->preemptions.gone(id, now);
  tree_->preemptions.remove(id);
  if (tree_->queues.phase(id)) tree_->queues.remove(id, now);
}

Result<void> JobQueues::requeue(const engine::State& state, const std::vector<vendors::Card>& cards, const Job& job,
                                Time now) {
  const std::string id = key_of(job.id);
  tree_->preemptions.gone(id, now);
  tree_->preemptions.remove(id);
  if (!tree_->queues.phase(id)) return add(state, cards, job, now);
  tree_->queues.requeue(id, now);
  asked_[job.id] = demand(state, cards, job);
  give_up(job);
  return {};
}

void JobQueues::start(const Job& job, Time now) {
  tree_->queues.start(key_of(job.id), now);
  note_running(job);
}

std::optional<queueing::Victim> JobQueues::victim_of(const Job& job) const {
  const queueing::Workload* workload = tree_->queues.workload(key_of(job.id));
  if (workload == nullptr) return std::nullopt;
  queueing::Victim victim;
  victim.id = workload->id;
  victim.queue = workload->queue;
  victim.priority = workload->priority;
  victim.started = job.granted.value_or(Time{});
  for (const queueing::Portion& portion : workload->portions) victim.cost += portion.milli_devices;
  victim.site = kHere;
  victim.leaving = job.eviction.has_value();
  return victim;
}

void JobQueues::note_running(const Job& job) {
  if (auto victim = victim_of(job)) tree_->preemptions.upsert(*std::move(victim));
}

void JobQueues::note_leaving(const Job& job) {
  auto victim = victim_of(job);
  if (!victim) return;
  victim->leaving = true;
  tree_->preemptions.upsert(*std::move(victim));
}

std::optional<queueing::Eviction> JobQueues::plan(const Job& job, Time now, queueing::FitOracle& room,
                                                  const std::set<std::string>& refused) {
  return tree_->preemptions.plan(key_of(job.id), now, room, refused).eviction;
}

std::vector<std::string> JobQueues::victims_for(int64_t job) const {
  std::vector<std::string> out;
  const auto& all = tree_->preemptions.under_way();
  const auto found = all.find(key_of(job));
  if (found == all.end()) return out;
  for (const std::string& victim : found->second.victims) {
    if (tree_->queues.phase(victim) == queueing::Phase::kLeaving) out.push_back(victim);
  }
  return out;
}

bool JobQueues::refuses(const engine::State& state, const Job& job, const model::ClaimSpec& spec,
                        const model::Allocation& allocation, const std::vector<std::string>& gone, Time now) {
  queueing::Queues& queues = tree_->queues;
  const std::string id = key_of(job.id);
  const bool entitled = queues.would_be_entitled(id, gone);
  const std::vector<queueing::Portion> portions = granted(state, spec, allocation);
  if (queues.refusal_without(id, portions, gone, now)) return true;
  queues.restate(id, portions);
  const bool refused = entitled && !queues.would_be_entitled(id, gone);
  give_up(job);
  return refused;
}

std::vector<queueing::Portion> JobQueues::granted(const engine::State& state, const model::ClaimSpec& spec,
                                                  const model::Allocation& allocation) const {
  std::vector<queueing::Portion> portions = engine::granted(state, spec, allocation);
  for (queueing::Portion& portion : portions) table_.fill_boxes(portion);
  return portions;
}

std::optional<engine::Reason> JobQueues::try_devices(const engine::State& state, const Job& job,
                                                     const model::ClaimSpec& spec, const model::Allocation& allocation,
                                                     Time now) {
  tree_->queues.restate(key_of(job.id), granted(state, spec, allocation));
  auto refusal = tree_->queues.refusal(key_of(job.id), now);
  if (!refusal) return std::nullopt;
  give_up(job);
  return engine::Reason{std::move(refusal->code), std::move(refusal->message)};
}

void JobQueues::give_up(const Job& job) {
  if (const auto asked = asked_.find(job.id); asked != asked_.end())
    tree_->queues.restate(key_of(job.id), asked->second);
}

std::vector<engine::BoxHolder> JobQueues::box_holders(const std::vector<Job>& jobs,
                                                      const std::set<int64_t>& gone) const {
  std::vector<engine::BoxHolder> holders;
  for (const Job& job : jobs) {
    const std::string id = key_of(job.id);
    const queueing::Workload* workload = tree_->queues.workload(id);
    if (!job.allocation || gone.contains(job.id) || workload == nullptr ||
        tree_->queues.phase(id) != queueing::Phase::kRunning)
      continue;
    const bool boxes = std::any_of(workload->portions.begin(), workload->portions.end(),
                                   [](const queueing::Portion& portion) { return portion.boxes > 0; });
    holders.push_back({&*job.allocation, tree_->queues.entitled(id), boxes});
  }
  return holders;
}

std::vector<std::string> JobQueues::leaves() const {
  std::vector<std::string> out;
  for (const auto& [name, spec] : table_.in_force()) {
    if (table_.leaf(name)) out.push_back(name);
  }
  out.emplace_back(engine::kUnassignedQueue);
  return out;
}

JobQueues::Past JobQueues::past(Time now) const {
  Past out;
  if (!tree_) return out;
  for (const auto& [name, one] : tree_->queues.past(now)) out[name] = {one.at, one.milli_device_seconds};
  return out;
}

}  // namespace heddle::standalone
