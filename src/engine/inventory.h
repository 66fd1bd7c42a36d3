// What exists: nodes, slices as pools, and for each node the devices that it can use. Kept up to date piece by piece.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocator/device.h"
#include "allocator/prepare.h"
#include "allocator/shapes.h"
#include "engine/cards.h"
#include "engine/engine.h"
#include "engine/ledger.h"
#include "engine/modules.h"
#include "engine/templates.h"
#include "model/device.h"
#include "model/pod.h"

namespace heddle::engine {

struct NodeEntry {
  model::Node node;
  std::vector<model::Taint> taints;            // model::effective_taints
  std::map<std::string, int64_t> allocatable;  // cpu in milli-units; empty: the node does not say
  std::map<std::string, int64_t> used;         // by pods
  int64_t pods = 0;
  std::map<std::string, std::vector<model::HostPort>> ports;  // taken by pods that take some, by pod uid
  allocator::NodeView view;
  // What stays free on the node's devices, in millionths of a device; ties go to the fuller node.
  mutable int64_t free_millionths = 0;
  mutable bool free_known = false;
  // None of its own devices is held.
  mutable bool empty = false;
  mutable bool empty_known = false;
  NodeCards cards = {};  // kept by Packing
  // Since Inventory::take_touched().
  bool touched = false;
  bool reshaped = true;  // its devices, or whether it can be used at all
  Modules modules = {};  // of its devices
};

class Inventory {
 public:
  // ledger and cache are borrowed for good.
  Inventory(std::string managed_driver, const Ledger& ledger, allocator::QueryCache& cache);

  // True when something changed that placement reads.
  bool upsert_node(model::Node node);
  bool remove_node(const std::string& name);
  void upsert_slice(model::ResourceSlice slice);
  bool remove_slice(const std::string& name);
  bool upsert_taint_rule(model::DeviceTaintRule rule);
  bool remove_taint_rule(const std::string& name);
  // The ledger's holdings of this device changed.
  void refresh(const DeviceKey& device);
  // What the node has left changed.
  void touch(NodeEntry& node);
  // The nodes that changed, came or went since the last call, by name; one may be there twice.
  [[nodiscard]] std::vector<std::string> take_touched();
  // Raised by each change of what nodes have left, and by each change of the nodes or their devices themselves.
  [[nodiscard]] uint64_t changes() const { return changes_; }
  [[nodiscard]] uint64_t reshapes() const { return reshapes_; }

  [[nodiscard]] std::map<std::string, NodeEntry>& nodes() { return nodes_; }
  [[nodiscard]] const std::map<std::string, NodeEntry>& nodes() const { return nodes_; }
  // By driver, pool and name.
  [[nodiscard]] std::vector<const allocator::DeviceInfo*> devices() const;
  // Null: no such device is published.
  [[nodiscard]] const allocator::DeviceInfo* find(const DeviceKey& device) const;
  // Shapes of the devices, with some that no device has any more.
  [[nodiscard]] size_t kept_shapes() const { return shapes_.size(); }
  // The nodes that see the device, or nothing for one that is not tied to a node.
  [[nodiscard]] static std::string node_of(const allocator::DeviceInfo& device);

 private:
  using PoolKey = std::pair<std::string, std::string>;  // driver, pool
  struct Slice {
    model::ResourceSlice object;  // its devices are taken out
    std::vector<allocator::PublishedDevice> devices;
    // Of those that rules taint: as they are published.
    std::map<size_t, std::shared_ptr<const allocator::DeviceTemplate>> untainted;
  };
  struct Pool {
    std::map<std::string, Slice> slices;  // by object name
    allocator::PoolInfo info;
    std::vector<allocator::DeviceInfo> devices;
    std::vector<allocator::DeviceInfo*> by_name;
    std::map<std::string, std::vector<model::CounterConsumption>> vanished;  // held, by device name
    std::set<std::string> local_nodes;
    bool everywhere = false;  // some slice is not tied to one node by name
  };

  void rebuild(const PoolKey& key);
  void taint(const PoolKey& key, Slice& slice);
  void taint_again(const model::DeviceTaintRule& rule);
  void drop_devices(const PoolKey& key, Pool& pool);
  static void add_counters(Pool& pool, const std::vector<const Slice*>& slices);
  void add_devices(const PoolKey& key, Pool& pool, const std::vector<const Slice*>& slices);
  allocator::DeviceInfo make_device(Pool& pool, const Slice& slice, const allocator::PublishedDevice& published);
  static void add_uses(Pool& pool, allocator::DeviceInfo& info);
  void charge_counters(const PoolKey& key, Pool& pool);
  void update_view(const Pool& pool, NodeEntry& node);
  uint32_t take_index();
  [[nodiscard]] static allocator::DeviceInfo* find_in(const Pool& pool, const std::string& name);

  std::string managed_driver_;
  const Ledger& ledger_;
  allocator::QueryCache& cache_;
  std::map<std::string, NodeEntry> nodes_;
  std::map<PoolKey, Pool> pools_;
  std::map<std::string, PoolKey> slices_;  // by object name
  std::map<std::string, std::set<PoolKey>> pools_by_node_;
  std::set<PoolKey> pools_everywhere_;
  std::map<std::string, model::DeviceTaintRule> taint_rules_;  // by name
  Templates templates_;
  allocator::Shapes shapes_;
  std::vector<std::string> touched_;
  uint64_t changes_ = 0;
  uint64_t reshapes_ = 0;
  std::vector<uint32_t> free_indexes_;
  uint32_t next_index_ = 0;
};

}  // namespace heddle::engine
