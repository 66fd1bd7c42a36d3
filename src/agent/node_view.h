// What the API server says about this node: the node, all ResourceSlices bound to it, the pods that run on it. Three
// watches, each narrowed to this node by field selectors.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/claim_service.h"
#include "agent/slices.h"
#include "base/log.h"
#include "kube/client.h"
#include "model/pod.h"

namespace heddle::agent {

struct PodInfo {
  std::string name_space;
  std::string name;
  std::string uid;
  std::vector<std::string> claims;  // names of ResourceClaims in its namespace
  std::vector<ContainerClaims> containers;
};

PodInfo pod_info(const model::Pod& pod);

struct NodeState {
  std::optional<NodeIdentity> node;
  std::map<std::string, Quantity> allocatable;
  std::vector<model::ResourceSlice> slices;  // of all drivers
  std::map<std::string, PodInfo> pods;       // by uid
  bool slices_synced = false;
  bool pods_synced = false;
};

// Thread rule: any thread.
class NodeView {
 public:
  NodeView(std::string node_name, kube::Client& client, const Logger& log);
  ~NodeView();

  [[nodiscard]] NodeState state() const;
  [[nodiscard]] std::optional<PodInfo> pod(const std::string& uid) const;
  // Puts a slice that was just written in, or takes one out, before the watch says so. `before`: slice_losses() from
  // before the write. False: the watch has told of a slice that went meanwhile, perhaps of this one; nothing is noted.
  bool note_slice(const model::ResourceSlice& slice, uint64_t before);
  // Counts the news by which a slice may have gone.
  [[nodiscard]] uint64_t slice_losses() const;
  void note_slice_removed(const std::string& name);

  // Counts changes.
  [[nodiscard]] uint64_t version() const;
  // Blocks until the version differs from `seen`, poke() or close() was called, or the time is over.
  uint64_t wait(uint64_t seen, Duration at_most);
  void poke();
  void close();
  // Text of the watch that fails; empty when all work.
  [[nodiscard]] std::string trouble() const;

 private:
  class Sink;
  void changed(const std::function<void(NodeState&)>& change);

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  NodeState state_;
  std::map<std::string, std::string> trouble_;
  uint64_t version_ = 1;
  uint64_t slice_losses_ = 0;
  bool closed_ = false;
  const Logger& log_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<kube::Watch>> watches_;  // after the sinks: ended first
};

}  // namespace heddle::agent
