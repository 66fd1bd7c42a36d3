#include "catalog/partition_devices.h"

#include <fmt/format.h>

#include <cctype>

namespace heddle::catalog {
namespace {

constexpr size_t kMostCounters = 32;  // of one set: resource.k8s.io/v1, ResourceSliceMaxCountersPerCounterSet
constexpr int64_t kMib = int64_t{1} << 20;
constexpr std::string_view kPartitions = "partitions";

// "1g.24gb+me.all" -> "1g-24gb-plus-me-all". + must not become -: NVIDIA has both 1g.24gb+me and 1g.24gb-me.
std::string label(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '+') {
      out += "-plus-";
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      out += '-';
    }
  }
  return out;
}

std::string slot_counter(const PartitionTable& table, int64_t slot) {
  return fmt::format("{}-{}", table.slot, slot);
}

Quantity amount(std::string_view counter, int64_t value) {
  return counter == "memory" ? Quantity::bytes(value) : Quantity::from_int(value);
}

model::Device make_device(const Partition& partition, std::string name) {
  model::Device device;
  device.name = std::move(name);
  device.attributes["type"] = std::string("partition");
  device.attributes["profile"] = partition.name;
  if (partition.memory_bytes) {
    device.capacity["memory"] = {.value = Quantity::bytes(*partition.memory_bytes / kMib * kMib), .policy = {}};
  }
  return device;
}

// One instance of a partition; without a placement it takes counters only.
model::CounterConsumption consumption(const PartitionTable& table, const Partition& partition, const std::string& card,
                                      const std::optional<Placement>& placement) {
  model::CounterConsumption out{.counter_set = card, .counters = {}, .compatibility_groups = {}};
  if (table.mode == PartitionMode::kUniform) {
    out.counters[std::string(kPartitions)] = Quantity::from_int(1);
    return out;
  }
  for (const auto& [counter, value] : partition.consumes) out.counters[counter] = amount(counter, value);
  if (table.counters.contains("memory") && partition.memory_bytes) {
    out.counters["memory"] = Quantity::bytes(*partition.memory_bytes);
  }
  for (int64_t i = 0; placement && i < placement->size; ++i) {
    out.counters[slot_counter(table, placement->start + i)] = Quantity::from_int(1);
  }
  return out;
}

void add_devices(const PartitionTable& table, const Partition& partition, const std::string& card, CardForms& forms) {
  const auto add = [&](int64_t place, const std::optional<Placement>& placement) {
    model::Device device = make_device(partition, fmt::format("{}-{}-{}", card, label(partition.name), place));
    if (placement) device.attributes["placement"] = placement->start;
    device.consumes_counters.push_back(consumption(table, partition, card, placement));
    forms.devices.push_back(std::move(device));
  };
  // The last place first: the largest partitions start at 0 only, and an allocator that takes devices in order should
  // leave them room.
  for (auto placement = partition.placements.rbegin(); placement != partition.placements.rend(); ++placement) {
    add(placement->start, *placement);
  }
  for (int64_t i = 0; partition.placements.empty() && i < partition.count; ++i) add(i, {});
}

// The partition of a uniform table that the mode names.
Result<const Partition*> find_mode(const PartitionTable& table, std::string_view mode) {
  if (table.mode != PartitionMode::kUniform) {
    return fail(Code::kInvalidArgument, fmt::format("partitions of {} mix: there is no mode to name", table.name),
                "mode");
  }
  if (const Partition* partition = table.find(mode); partition != nullptr) return partition;
  return fail(Code::kInvalidArgument, fmt::format("{} has no mode '{}'", table.name, mode), "mode");
}

}  // namespace

Result<CardForms> partition_devices(const PartitionTable& table, const std::string& card,
                                    std::optional<std::string_view> mode) {
  if (table.partitions.empty()) return fail(Code::kUnsupported, "the card cannot be partitioned");
  CardForms forms;
  forms.counters.name = card;
  if (mode || table.mode == PartitionMode::kUniform) {
    HEDDLE_TRY(const Partition* partition, find_mode(table, mode.value_or("")));
    forms.counters.counters[std::string(kPartitions)] = Quantity::from_int(partition->count);
    add_devices(table, *partition, card, forms);
  } else {
    for (const auto& [counter, value] : table.counters) forms.counters.counters[counter] = amount(counter, value);
    for (int64_t i = 0; i < table.slots; ++i) forms.counters.counters[slot_counter(table, i)] = Quantity::from_int(1);
    for (const Partition& partition : table.partitions) add_devices(table, partition, card, forms);
  }
  if (forms.counters.counters.size() > kMostCounters) {
    return fail(Code::kUnsupported, fmt::format("{} needs {} counters, and a counter set holds {}", table.name,
                                                forms.counters.counters.size(), kMostCounters));
  }
  forms.whole = {.counter_set = card, .counters = forms.counters.counters, .compatibility_groups = {}};
  return forms;
}

}  // namespace heddle::catalog
