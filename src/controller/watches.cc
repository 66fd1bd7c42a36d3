#include "controller/watches.h"

#include <utility>

#include "codec/codec.h"
#include "kube/paths.h"

namespace heddle::controller {
namespace {

// Of the API server, for a kind that is not installed.
constexpr std::string_view kNotServed = "could not find the requested resource";

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

void ObjectSink::queue_object(std::string_view object, std::map<std::string, std::string>& names) {
  Result<ObjectEvent> event = parse_object(kind_, object);
  if (!event) {
    // One object that cannot be read must not hide the others.
    log_.error("object not understood", {{"resource", kind_name(kind_)}, {"error", event.error().text()}});
    if (const auto any = codec::parse_any(object)) names[any->meta.key()] = any->meta.uid;
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
    log_.error("removed object not understood", {{"resource", kind_name(kind_)}, {"error", any.error().text()}});
    return;
  }
  known_.erase(any->meta.key());
  queue_.push(ObjectEvent{kind_, any->meta.key(), Removed{any->meta.uid}});
}

void ObjectSink::status(std::string_view trouble) {
  const bool ours = kind_ == ObjectKind::kQueue || kind_ == ObjectKind::kReservation;
  if (ours && trouble.find(kNotServed) != std::string_view::npos) {
    // The chart of an older version: there is nothing of the kind, and nothing to wait for.
    healthy_.store(true);
    return on_list_();
  }
  healthy_.store(trouble.empty());
  if (!trouble.empty()) log_.warning("watch in trouble", {{"resource", kind_name(kind_)}, {"why", trouble}});
}

Watches::Watches(kube::Client& client, EventQueue& queue, const Logger& log)
    : client_(client), queue_(queue), log_(log) {}

Watches::~Watches() {
  for (auto& watch : watches_) watch.reset();
}

void Watches::start(std::function<void()> on_synced) {
  for (auto& watch : watches_) watch.reset();  // from here no callback of the earlier round runs
  {
    const std::lock_guard lock(mutex_);
    listed_.fill(false);
    on_synced_ = std::move(on_synced);
    synced_.store(false);
  }
  for (size_t i = 0; i < kObjectKinds; ++i) {
    const auto kind = static_cast<ObjectKind>(i);
    if (!sinks_[i]) {
      sinks_[i] = std::make_unique<ObjectSink>(kind, queue_, log_, [this, i] { listed(i); });
    }
    kube::WatchOptions options;
    options.path = kube::collection_path(resource_of(kind));
    watches_[i] = client_.watch(std::move(options), *sinks_[i]);
  }
}

void Watches::listed(size_t index) {
  std::function<void()> done;
  {
    const std::lock_guard lock(mutex_);
    listed_[index] = true;
    for (const bool one : listed_) {
      if (!one) return;
    }
    synced_.store(true);
    done = std::exchange(on_synced_, nullptr);
  }
  if (done) queue_.push(TaskEvent{std::move(done)});
}

bool Watches::healthy() const {
  for (const auto& sink : sinks_) {
    if (!sink || !sink->healthy()) return false;
  }
  return true;
}

}  // namespace heddle::controller
