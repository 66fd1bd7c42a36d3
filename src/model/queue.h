// AcceleratorQueue, AcceleratorTopology and AcceleratorReservation of heddle.dev/v1alpha1. What they mean:
// docs/queueing.md.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/meta.h"
#include "model/placement_policy.h"

namespace heddle::model {

// What a quota counts, of which devices; an empty filter: any.
struct QuotaMeter {
  enum class Counts {
    kDevices,  // in thousandths; a share counts its part of the device
    kMemory,   // bytes of device memory
    kCores,    // percent of a device's compute
    kBoxes,    // groups of box_devices whole devices that lie together
  };
  Counts counts = Counts::kDevices;
  std::string device_class;
  std::string vendor;
  std::string model;
  int64_t box_devices = 0;  // with kBoxes, 2 or more
  // Where the devices of a box lie. Neither: on one node.
  std::string box_level = {};  // in one domain of this topology level, by its name or by the node label it goes by
  std::string box_shape = {};  // as one slice of a torus of these chips, sides ascending: "4x4x8"; box_devices of them
  friend auto operator<=>(const QuotaMeter&, const QuotaMeter&) = default;
};

// Absent: nothing guaranteed, no bound. In the unit of the meter.
struct QueueQuota {
  QuotaMeter meter;
  std::optional<int64_t> guaranteed;
  std::optional<int64_t> limit;
  std::optional<int64_t> borrowing;
  std::optional<int64_t> lending;
  friend bool operator==(const QueueQuota&, const QueueQuota&) = default;
};

// Both parts must hold. Empty: matches everything.
struct LabelSelector {
  std::map<std::string, std::string> match_labels;
  std::vector<Requirement> match_expressions;  // kIn, kNotIn, kExists, kDoesNotExist
  friend bool operator==(const LabelSelector&, const LabelSelector&) = default;
};
bool matches(const LabelSelector& selector, const std::map<std::string, std::string>& labels);

struct AcceleratorQueueSpec {
  std::string parent;  // empty: a queue at the top
  int64_t weight = 1;
  std::vector<QueueQuota> quotas;
  std::vector<std::string> namespaces;
  std::optional<LabelSelector> namespace_selector;
  std::optional<PlacementPolicy> placement_policy;  // of its work, where the pod does not say; none: of the queue above
  friend bool operator==(const AcceleratorQueueSpec&, const AcceleratorQueueSpec&) = default;
};

// What a queue has used so far, decayed to `at` (queueing::PastUsage).
struct QueuePast {
  Time at;
  int64_t milli_device_seconds = 0;
  friend bool operator==(const QueuePast&, const QueuePast&) = default;
};

struct AcceleratorQueue {
  ObjectMeta meta;
  AcceleratorQueueSpec spec;
  std::string spec_json;  // as it came
  int64_t generation = 0;
  // Of status: the spec that was in force last, and the past usage.
  std::optional<AcceleratorQueueSpec> in_force;
  std::optional<QueuePast> past;
};

// Who may use nodes that a level reserves: also what fits nowhere else, or replacements alone.
enum class ReserveUse { kWhenNeeded, kReplacements };

struct TopologyLevel {
  std::string name;
  std::string node_label;        // or
  std::string device_attribute;  // fully qualified
  int64_t reserve_nodes = 0;     // empty nodes of each domain that new work leaves empty, for replacements
  ReserveUse reserve_use = ReserveUse::kWhenNeeded;
  friend bool operator==(const TopologyLevel&, const TopologyLevel&) = default;
};

struct AcceleratorTopology {
  ObjectMeta meta;
  std::vector<TopologyLevel> levels;  // narrow to wide
};

struct AcceleratorReservation {
  ObjectMeta meta;
  Time start;
  Time end;
  std::map<QuotaMeter, int64_t> amounts;
  // Who may use it: work of this queue, or of these namespaces; of both where both are named.
  std::string queue;
  std::vector<std::string> namespaces;
};

struct Namespace {
  ObjectMeta meta;
};

// "H100 devices", "nvidia memory", "boxes of 8 H100 devices": for sentences, and unique for a meter.
std::string meter_name(const QuotaMeter& meter);
// What tells boxes apart: "8", "72 in one linkDomain", "4x4x8".
std::string box_name(const QuotaMeter& meter);
// Counts boxes of which each has devices of several nodes.
bool wider_than_a_node(const QuotaMeter& meter);
std::string_view counts_name(QuotaMeter::Counts counts);

}  // namespace heddle::model
