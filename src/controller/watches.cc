#include "controller/watches.h"

#include <utility>

#include "codec/codec.h"
#include "kube/paths.h"

namespace heddle::controller {
namespace {

// Of the API server, for a kind that is not installed.
constexpr std::string_view kNotServed = "could not find the requested resource";
// What is awaited besides the lists: which kinds of gangs there are.
constexpr const char* kGangKindsKnown = "kinds of gangs";

template <typename T>
Result<ObjectEvent> as_event(ObjectKind kind, Result<T> parsed) {
  if (!parsed) return tl::unexpected<Error>(std::move(parsed).error());
  std::string key = parsed->meta.key();
  return ObjectEvent{kind, std::move(key), Object(std::move(*parsed))};
}

kube::ResourceType resource_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kPod:
      return kube::kPods;
    case ObjectKind::kNode:
      return kube::kNodes;
    case ObjectKind::kSlice:
      return kube::kResourceSlices;
    case ObjectKind::kClass:
      return kube::kDeviceClasses;
    case ObjectKind::kClaim:
      return kube::kResourceClaims;
    case ObjectKind::kQuota:
      return kube::kResourceQuotas;
    case ObjectKind::kNamespace:
      return kube::kNamespaces;
    case ObjectKind::kQueue:
      return kube::kAcceleratorQueues;
    case ObjectKind::kReservation:
      return kube::kAcceleratorReservations;
    case ObjectKind::kTopology:
      return kube::kAcceleratorTopologies;
    case ObjectKind::kTaintRule:
      return kube::kDeviceTaintRules;
    case ObjectKind::kGangObject:
      break;
  }
  return kube::kPods;
}

std::string uid_of(const ObjectEvent& event) {
  const Object* object = std::get_if<Object>(&event.what);
  if (object == nullptr) return {};
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (requires { value.meta.uid; }) return value.meta.uid;
        return {};
      },
      *object);
}

}  // namespace

std::string_view kind_name(ObjectKind kind) {
  return resource_of(kind).plural;
}

Result<ObjectEvent> parse_object(ObjectKind kind, std::string_view json) {
  switch (kind) {
    case ObjectKind::kPod:
      return as_event(kind, codec::parse_pod(json));
    case ObjectKind::kNode:
      return as_event(kind, codec::parse_node(json));
    case ObjectKind::kSlice:
      return as_event(kind, codec::parse_slice(json));
    case ObjectKind::kClass:
      return as_event(kind, codec::parse_class(json));
    case ObjectKind::kClaim:
      return as_event(kind, codec::parse_claim(json));
    case ObjectKind::kNamespace:
      return as_event(kind, codec::parse_namespace(json));
    case ObjectKind::kQueue:
      return as_event(kind, read_queue_object(json));
    case ObjectKind::kReservation:
      return as_event(kind, read_reservation_object(json));
    case ObjectKind::kTopology:
      return as_event(kind, engine::read_topology_object(json));
    case ObjectKind::kTaintRule:
      return as_event(kind, codec::parse_taint_rule(json));
    case ObjectKind::kGangObject:
      return fail(Code::kInvalidArgument, "no kind of its own");
    case ObjectKind::kQuota:
      break;
  }
  Result<Quota> quota = parse_quota(json);
  if (!quota) return tl::unexpected<Error>(std::move(quota).error());
  std::string key = quota->name_space + "/" + quota->name;
  return ObjectEvent{kind, std::move(key), Object(std::move(*quota))};
}

ObjectSink::ObjectSink(ObjectKind kind, EventQueue& queue, const Logger& log, std::function<void()> on_list)
    : kind_(kind), queue_(queue), log_(log), on_list_(std::move(on_list)) {}

ObjectSink::ObjectSink(std::string gang_kind, EventQueue& queue, const Logger& log, std::function<void()> on_list)
    : kind_(ObjectKind::kGangObject),
      gang_kind_(std::move(gang_kind)),
      queue_(queue),
      log_(log),
      on_list_(std::move(on_list)) {}

std::string_view ObjectSink::name() const {
  return gang_kind_.empty() ? kind_name(kind_) : std::string_view(gang_kind_);
}

std::string ObjectSink::key_of(const model::ObjectMeta& meta) const {
  return gang_kind_.empty() ? meta.key() : gang_kind_ + " " + meta.key();
}

Result<ObjectEvent> ObjectSink::parse(std::string_view object) const {
  if (gang_kind_.empty()) return parse_object(kind_, object);
  HEDDLE_TRY(GangObject gang, parse_gang_object_of_kind(object, gang_kind_));
  std::string key = gang.key;
  return ObjectEvent{kind_, std::move(key), Object(std::move(gang))};
}

void ObjectSink::queue_object(std::string_view object, std::map<std::string, std::string>& names) {
  Result<ObjectEvent> event = parse(object);
  if (!event) {
    // One object that cannot be read must not hide the others.
    log_.error("object not understood", {{"resource", name()}, {"error", event.error().text()}});
    if (const auto any = codec::parse_any(object)) names[key_of(any->meta)] = any->meta.uid;
    return;
  }
  names[event->key] = uid_of(*event);
  queue_.push(std::move(*event));
}

void ObjectSink::replace(const std::vector<std::string_view>& items) {
  std::map<std::string, std::string> names;
  for (const std::string_view item : items) queue_object(item, names);
  for (const auto& [key, uid] : known_) {
    if (!names.contains(key)) queue_.push(ObjectEvent{kind_, key, Removed{uid}});
  }
  known_ = std::move(names);
  on_list_();
}

void ObjectSink::added_or_modified(std::string_view object) {
  queue_object(object, known_);
}

void ObjectSink::deleted(std::string_view object) {
  const auto any = codec::parse_any(object);
  if (!any) {
    log_.error("removed object not understood", {{"resource", name()}, {"error", any.error().text()}});
    return;
  }
  known_.erase(key_of(any->meta));
  queue_.push(ObjectEvent{kind_, key_of(any->meta), Removed{any->meta.uid}});
}

void ObjectSink::status(std::string_view trouble) {
  if (trouble.empty()) return;
  // With the chart of an older version, or Kubernetes before 1.37: there is nothing of the kind, and nothing to wait
  // for.
  const bool may_lack = kind_ == ObjectKind::kQueue || kind_ == ObjectKind::kReservation ||
                        kind_ == ObjectKind::kTopology || kind_ == ObjectKind::kTaintRule;
  if (may_lack && trouble.find(kNotServed) != std::string_view::npos) return on_list_();
  log_.warning("watch in trouble", {{"resource", name()}, {"why", trouble}});
  if (kind_ == ObjectKind::kGangObject) on_list_();
}

Watches::Watches(kube::Client& client, EventQueue& queue, const Clock& clock, const Logger& log,
                 std::function<void(std::set<std::string>)> on_gang_kinds)
    : client_(client),
      queue_(queue),
      clock_(clock),
      log_(log),
      on_gang_kinds_(std::move(on_gang_kinds)),
      link_(std::make_shared<Link>()) {
  link_->watches = this;
}

Watches::~Watches() {
  {
    const std::lock_guard lock(link_->mutex);
    link_->watches = nullptr;
  }
  for (auto& watch : watches_) watch.reset();
  for (auto& [kind, gang] : gangs_) gang.watch.reset();
}

void Watches::start(std::function<void()> on_synced) {
  // From here no callback of the earlier round runs.
  for (auto& watch : watches_) watch.reset();
  for (auto& [kind, gang] : gangs_) gang.watch.reset();
  {
    const std::lock_guard lock(mutex_);
    awaited_ = {kGangKindsKnown};
    for (size_t i = 0; i < kObjectKinds; ++i) awaited_.emplace(kind_name(static_cast<ObjectKind>(i)));
    on_synced_ = std::move(on_synced);
    synced_.store(false);
  }
  for (size_t i = 0; i < kObjectKinds; ++i) {
    const auto kind = static_cast<ObjectKind>(i);
    if (!sinks_[i]) {
      sinks_[i] = std::make_unique<ObjectSink>(kind, queue_, log_,
                                               [this, name = std::string(kind_name(kind))] { listed(name); });
    }
    kube::WatchOptions options;
    options.path = kube::collection_path(resource_of(kind));
    watches_[i] = client_.watch(std::move(options), *sinks_[i]);
  }
  look();
}

void Watches::look_if_due() {
  if (round_ > 0 && !looking_ && clock_.monotonic_nanos() >= next_look_) look();
}

bool Watches::look_now() {
  if (round_ == 0 || looking_ || clock_.monotonic_nanos() - last_look_ < kLookAgain.nanos) return false;
  look();
  return true;
}

void Watches::look() {
  looking_ = true;
  last_look_ = clock_.monotonic_nanos();
  find_gang_kinds(client_, [link = link_, round = ++round_](Result<GangKinds> kinds) {
    const std::lock_guard lock(link->mutex);
    Watches* const watches = link->watches;
    if (watches == nullptr) return;
    // The owner thread ends before the watches do.
    watches->queue_.push(TaskEvent{[watches, round, kinds = std::move(kinds)] { watches->looked(round, kinds); }});
  });
}

void Watches::looked(uint64_t round, const Result<GangKinds>& kinds) {
  if (round != round_) return;
  looking_ = false;
  next_look_ = clock_.monotonic_nanos() + (kinds ? kLookInterval : kLookAgain).nanos;
  if (!kinds) {
    log_.warning("cannot find out which kinds of gangs are served", {{"why", kinds.error().text()}});
    return;
  }
  tell_denied(kinds->denied);
  watch_gangs(kinds->readable);
  listed(kGangKindsKnown);
}

void Watches::tell_denied(const std::set<std::string>& denied) {
  for (const std::string& kind : denied) {
    if (denied_.contains(kind)) continue;
    log_.warning("may not be read, and counts as not served: gangs that have their size there start one by one",
                 {{"resource", kind}, {"fix", "grant get, list and watch to the controller"}});
  }
  denied_ = denied;
}

void Watches::watch_gangs(const std::vector<GangKind>& kinds) {
  std::set<std::string> names;
  for (const GangKind& kind : kinds) names.insert(kind.object_kind);
  on_gang_kinds_(names);
  for (auto it = gangs_.begin(); it != gangs_.end();) {
    if (names.contains(it->first)) {
      ++it;
      continue;
    }
    it->second.watch.reset();
    it->second.sink->replace({});
    it = gangs_.erase(it);
  }
  for (const GangKind& kind : kinds) {
    GangWatch& gang = gangs_[kind.object_kind];
    if (gang.watch && gang.path == kind.path) continue;
    gang.watch.reset();
    gang.path = kind.path;
    awaits(kind.object_kind);
    if (!gang.sink) {
      gang.sink = std::make_unique<ObjectSink>(kind.object_kind, queue_, log_,
                                               [this, name = kind.object_kind] { listed(name); });
    }
    kube::WatchOptions options;
    options.path = kind.path;
    gang.watch = client_.watch(std::move(options), *gang.sink);
  }
}

void Watches::awaits(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!awaited_.empty()) awaited_.insert(name);
}

void Watches::listed(const std::string& name) {
  std::function<void()> done;
  {
    const std::lock_guard lock(mutex_);
    awaited_.erase(name);
    if (!awaited_.empty()) return;
    synced_.store(true);
    done = std::exchange(on_synced_, nullptr);
  }
  if (done) queue_.push(TaskEvent{std::move(done)});
}

}  // namespace heddle::controller
