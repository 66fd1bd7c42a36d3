#include "agent/node_view.h"

#include <algorithm>

#include "codec/codec.h"

namespace heddle::agent {
namespace {

void put_slice(NodeState& state, const model::ResourceSlice& slice) {
  const auto known = std::ranges::find(state.slices, slice.meta.name,
                                       [](const model::ResourceSlice& entry) { return entry.meta.name; });
  if (known == state.slices.end()) {
    state.slices.push_back(slice);
  } else {
    *known = slice;
  }
}

void drop_slice(NodeState& state, const std::string& name) {
  std::erase_if(state.slices, [&](const model::ResourceSlice& slice) { return slice.meta.name == name; });
}

void put_node(NodeState& state, const model::Node& node) {
  state.node = NodeIdentity{node.meta.name, node.meta.uid};
  state.allocatable = node.allocatable;
}

}  // namespace

PodInfo pod_info(const model::Pod& pod) {
  PodInfo info{pod.meta.name_space, pod.meta.name, pod.meta.uid, {}, {}};
  std::map<std::string, std::string> object_of;
  for (const model::PodResourceClaim& claim : pod.resource_claims) {
    const std::string& name = claim.claim_name.empty() ? claim.actual_name : claim.claim_name;
    if (name.empty()) continue;
    info.claims.push_back(name);
    object_of[claim.name] = name;
  }
  for (const model::Container& container : pod.containers) {
    ContainerClaims entry{container.name, {}};
    for (const std::string& name : container.claims) {
      if (const auto found = object_of.find(name); found != object_of.end()) entry.claims.push_back(found->second);
    }
    info.containers.push_back(std::move(entry));
  }
  return info;
}

// One watch: parses on the client's thread and changes the state under its lock.
class NodeView::Sink final : public kube::WatchSink {
 public:
  enum class Kind { kNode, kSlices, kPods };
  Sink(NodeView& view, Kind kind, std::string name) : view_(view), kind_(kind), name_(std::move(name)) {}

  void replace(const std::vector<std::string_view>& items) override {
    view_.changed([&](NodeState& state) {
      if (kind_ == Kind::kSlices) {
        state.slices.clear();
        ++view_.slice_losses_;
      }
      if (kind_ == Kind::kPods) state.pods.clear();
      for (const std::string_view item : items) put(state, item);
      if (kind_ == Kind::kSlices) state.slices_synced = true;
      if (kind_ == Kind::kPods) state.pods_synced = true;
    });
  }
  void added_or_modified(std::string_view object) override {
    view_.changed([&](NodeState& state) { put(state, object); });
  }
  void deleted(std::string_view object) override {
    const auto any = codec::parse_any(object);
    if (!any) return;
    view_.changed([&](NodeState& state) {
      if (kind_ == Kind::kSlices) {
        drop_slice(state, any->meta.name);
        ++view_.slice_losses_;
      }
      if (kind_ == Kind::kPods) state.pods.erase(any->meta.uid);
    });
  }
  void status(std::string_view trouble) override {
    const std::lock_guard lock(view_.mutex_);
    view_.trouble_[name_] = trouble;
    if (!trouble.empty()) view_.log_.warning("watch fails", {{"watch", name_}, {"why", trouble}});
  }

 private:
  void put(NodeState& state, std::string_view object) {
    std::string why;
    if (kind_ == Kind::kNode) {
      const auto node = codec::parse_node(object);
      node ? put_node(state, *node) : void(why = node.error().text());
    } else if (kind_ == Kind::kSlices) {
      const auto slice = codec::parse_slice(object);
      slice ? put_slice(state, *slice) : void(why = slice.error().text());
    } else {
      const auto pod = codec::parse_pod(object);
      if (!pod) why = pod.error().text();
      if (pod && pod->finished()) state.pods.erase(pod->meta.uid);
      if (pod && !pod->finished()) state.pods[pod->meta.uid] = pod_info(*pod);
    }
    if (!why.empty()) view_.log_.warning("an object is ignored", {{"watch", name_}, {"why", why}});
  }

  NodeView& view_;
  const Kind kind_;
  const std::string name_;
};

NodeView::NodeView(std::string node_name, kube::Client& client, const Logger& log) : log_(log) {
  const auto watch = [&](Sink::Kind kind, const char* name, const char* path, const std::string& selector) {
    kube::WatchOptions options;
    options.path = path;
    options.field_selector = selector;
    sinks_.push_back(std::make_unique<Sink>(*this, kind, name));
    watches_.push_back(client.watch(std::move(options), *sinks_.back()));
  };
  watch(Sink::Kind::kNode, "node", "/api/v1/nodes", "metadata.name=" + node_name);
  watch(Sink::Kind::kSlices, "slices", "/apis/resource.k8s.io/v1/resourceslices", "spec.nodeName=" + node_name);
  watch(Sink::Kind::kPods, "pods", "/api/v1/pods", "spec.nodeName=" + node_name);
}

NodeView::~NodeView() {
  watches_.clear();
}

void NodeView::changed(const std::function<void(NodeState&)>& change) {
  const std::lock_guard lock(mutex_);
  change(state_);
  ++version_;
  condition_.notify_all();
}

NodeState NodeView::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::optional<PodInfo> NodeView::pod(const std::string& uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = state_.pods.find(uid);
  return found != state_.pods.end() ? std::optional(found->second) : std::nullopt;
}

bool NodeView::note_slice(const model::ResourceSlice& slice, uint64_t before) {
  const std::lock_guard lock(mutex_);
  if (slice_losses_ != before) return false;
  put_slice(state_, slice);
  return true;
}

uint64_t NodeView::slice_losses() const {
  const std::lock_guard lock(mutex_);
  return slice_losses_;
}

void NodeView::note_slice_removed(const std::string& name) {
  const std::lock_guard lock(mutex_);
  drop_slice(state_, name);
}

uint64_t NodeView::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

uint64_t NodeView::wait(uint64_t seen, Duration at_most) {
  std::unique_lock lock(mutex_);
  condition_.wait_for(lock, std::chrono::nanoseconds(at_most.nanos), [&] { return closed_ || version_ != seen; });
  return version_;
}

void NodeView::poke() {
  const std::lock_guard lock(mutex_);
  ++version_;
  condition_.notify_all();
}

void NodeView::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  condition_.notify_all();
}

std::string NodeView::trouble() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, text] : trouble_) {
    if (!text.empty()) return name + ": " + text;
  }
  return {};
}

}  // namespace heddle::agent
