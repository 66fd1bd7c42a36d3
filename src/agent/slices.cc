#include "agent/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "agent/names.h"
#include "base/text.h"

namespace heddle::agent {
namespace {

constexpr size_t kDevicesPerSlice = 64;  // the limit for devices with taints
constexpr size_t kMaxString = 64;        // of an attribute
constexpr size_t kSetsPerSlice = 8;      // of counters
constexpr int64_t kMiB = int64_t{1} << 20;

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         std::ranges::all_of(
             text, [](char c) { return c >= '0' && c <= '9'; }) &&
         (text.size() == 1 || text.front() != '0');
}

// "570.86.15" is a semantic version and can be compared in selectors; "550.54.09" is not, and stays text.
model::AttributeValue version_or_text(const std::string& text) {
  size_t parts = 0;
  std::string_view rest = text;
  while (true) {
    const size_t dot = rest.find('.');
    if (!is_number(rest.substr(0, dot))) return cut_text(text, kMaxString);
    ++parts;
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (parts == 2) return model::Version{text + ".0"};
  if (parts == 3) return model::Version{text};
  return cut_text(text, kMaxString);
}

// A taint's value obeys the rules of a label value.
std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text.substr(0, 63)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    value.push_back(plain ? c : '-');
  }
  const auto is_edge = [](char c) { return c == '-' || c == '.' || c == '_'; };
  while (!value.empty() && is_edge(value.back())) value.pop_back();
  value.erase(0, static_cast<size_t>(std::ranges::find_if_not(value, is_edge) - value.begin()));
  return value;
}

model::Taint taint(std::string_view key, std::string_view value) {
  return {std::string(key), label_value(value), std::string(kNoSchedule), std::nullopt};
}

model::Capacity capacity(const Quantity& value, const Quantity& min, const Quantity& step) {
  model::RequestPolicy policy;
  policy.default_value = value;  // who names nothing takes the whole card
  policy.valid_range = model::RequestPolicy::Range{min, value, step};
  return {value, std::move(policy)};
}

// Why the card cannot be offered; empty: it can. names: of the cards before it, which gets its own.
std::string obstacle(const vendors::Card& card, std::set<std::string>& names) {
  if (card.partitioned && card.vendor == "ascend")
    return "it is cut into vNPUs: those that exist are offered, the whole is not; npu-smi set -t destroy-vnpu ends "
           "that";
  if (card.partitioned)
    return "its partitions (MIG) are on: those that exist are offered, the whole is not; nvidia-smi -mig 0 ends that";
  if (grantable_memory(card) < 2 * kMiB) return fmt::format("{} bytes of memory cannot be shared", card.memory_bytes);
  if (!names.insert(card.vendor + "/" + device_name(card)).second) return "another card has its minor number";
  return {};
}

// The slices of one node, each with devices or with counters, of any number of pools.
class SliceBuilder {
 public:
  explicit SliceBuilder(NodeIdentity node) : node_(std::move(node)) {}

  void add(const std::string& vendor, model::Device device) {
    const std::string pool = pool_name(node_.name, vendor);
    if (slices_.empty() || slices_.back().pool != pool || slices_.back().devices.size() == kDevicesPerSlice) {
      slices_.push_back(make_slice(pool, fmt::format("{}-heddle-{}-{}", node_.name, vendor, count_[pool]++)));
    }
    slices_.back().devices.push_back(std::move(device));
  }

  void add_counters(const std::string& vendor, model::CounterSet set) {
    const std::string pool = pool_name(node_.name, vendor);
    if (counters_.empty() || counters_.back().pool != pool ||
        counters_.back().shared_counters.size() == kSetsPerSlice) {
      counters_.push_back(make_slice(pool, fmt::format("{}-heddle-{}-counters-{}", node_.name, vendor, sets_[pool]++)));
    }
    counters_.back().shared_counters.push_back(std::move(set));
  }

  // In the order of their devices; those with counters last.
  std::vector<model::ResourceSlice> take() {
    std::ranges::move(counters_, std::back_inserter(slices_));
    for (model::ResourceSlice& slice : slices_) slice.pool_slice_count = count_[slice.pool] + sets_[slice.pool];
    return std::move(slices_);
  }

 private:
  [[nodiscard]] model::ResourceSlice make_slice(const std::string& pool, std::string name) const {
    model::ResourceSlice slice;
    slice.meta.name = std::move(name);
    slice.meta.owners.push_back({"v1", "Node", node_.name, node_.uid, true});
    slice.driver = kDriver;
    slice.pool = pool;
    slice.scope = {model::NodeScope::Kind::kNode, node_.name, {}};
    return slice;
  }

  const NodeIdentity node_;
  std::vector<model::ResourceSlice> slices_;
  std::vector<model::ResourceSlice> counters_;
  std::map<std::string, int64_t> count_;  // by pool
  std::map<std::string, int64_t> sets_;
};

// Without the times that the API server adds.
model::Device without_times(model::Device device) {
  for (model::Taint& entry : device.taints) entry.added.reset();
  return device;
}

bool same_devices(const std::vector<model::Device>& a, const std::vector<model::Device>& b) {
  return std::ranges::equal(
      a, b, [](const model::Device& x, const model::Device& y) { return without_times(x) == without_times(y); });
}

bool same_content(const model::ResourceSlice& a, const model::ResourceSlice& b) {
  return a.driver == b.driver && a.pool == b.pool && a.pool_slice_count == b.pool_slice_count && a.scope == b.scope &&
         a.meta.owners == b.meta.owners && a.shared_counters == b.shared_counters && same_devices(a.devices, b.devices);
}

// A taint that stays keeps the time since when it holds.
void keep_times(model::ResourceSlice& next, const model::ResourceSlice& before) {
  for (model::Device& device : next.devices) {
    const auto old = std::ranges::find(before.devices, device.name, &model::Device::name);
    if (old == before.devices.end()) continue;
    for (model::Taint& entry : device.taints) {
      for (const model::Taint& was : old->taints) {
        if (was.key == entry.key && was.value == entry.value && was.effect == entry.effect) entry.added = was.added;
      }
    }
  }
}

// The resource by which a device plugin serves cards like this one; empty: there is none.
std::string plugin_resource(const vendors::Card& card, const std::map<std::string, Quantity>& allocatable) {
  if (card.is_partition()) {
    // The plugin's strategy "mixed" names the profiles.
    const std::string mig = card.vendor + ".com/mig-";
    for (auto at = allocatable.lower_bound(mig); at != allocatable.end() && at->first.starts_with(mig); ++at) {
      if (at->second.sign() > 0) return at->first;
    }
  }
  const std::string prefix = card.vendor == "ascend" ? "huawei.com/Ascend" : card.vendor + ".com/gpu";
  for (auto at = allocatable.lower_bound(prefix); at != allocatable.end() && at->first.starts_with(prefix); ++at) {
    const bool same = card.vendor == "ascend" || at->first == prefix;
    if (same && at->second.sign() > 0) return at->first;
  }
  return {};
}

const std::string* text_attribute(const model::Device& device, const std::string& driver, const std::string& name) {
  const model::AttributeValue* value = model::find_attribute(device, driver, name);
  return value != nullptr ? std::get_if<std::string>(value) : nullptr;
}

}  // namespace

std::string device_name(const vendors::Card& card) {
  std::string name = fmt::format("{}-{}", card.kind.empty() ? "gpu" : card.kind, card.minor);
  if (!card.is_partition()) return name;
  std::string label;  // of a DNS label's characters; + must not become -, there are 1g.24gb+me and 1g.24gb-me
  for (const char c : card.partition.profile) {
    if (c == '+') {
      label += "-plus-";
    } else {
      label += c == '.' || c == '_' ? '-' : c;
    }
  }
  return fmt::format("{}-{}-{}", name, label, card.partition.start);
}

std::string pool_name(const std::string& node, const std::string& vendor) {
  return node + "/" + vendor;
}

int64_t grantable_memory(const vendors::Card& card) {
  return card.memory_bytes / kMiB * kMiB;
}

model::Device make_device(const vendors::Card& card, const std::optional<std::string>& foreign_owner) {
  model::Device device;
  device.name = device_name(card);
  auto& attributes = device.attributes;
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) attributes[name] = cut_text(value, kMaxString);
  };
  text("vendor", card.vendor);
  text("kind", card.kind);
  attributes["type"] = std::string(card.is_partition() ? "partition" : "card");
  attributes["isolation"] = std::string(card.is_partition() ? "hard" : "soft");
  // What a claim may choose besides: isolation mps of its ShareConfig.
  if (card.mps && !card.is_partition()) attributes["mps"] = true;
  if (card.is_partition()) {
    text("profile", card.partition.profile);
    text("parentUUID", card.partition.parent_uuid);
    attributes["placement"] = card.partition.start;
  }
  text("model", card.model);
  text("architecture", card.architecture);
  text("uuid", card.uuid);
  attributes["index"] = card.index;
  attributes["minor"] = card.minor;
  if (!card.driver_version.empty()) attributes["driverVersion"] = version_or_text(card.driver_version);
  if (!card.runtime_version.empty()) attributes["runtimeVersion"] = version_or_text(card.runtime_version);
  text("linkDomain", card.link_domain);
  text("superNode", card.super_node);
  if (!card.is_partition()) text("module", card.module);
  text("resource.kubernetes.io/pciBusID", card.pci_bus_id);
  text("resource.kubernetes.io/pcieRoot", card.pcie_root);
  if (card.numa_node >= 0) attributes["resource.kubernetes.io/numaNode"] = card.numa_node;
  if (card.is_partition()) {
    // Granted as it is: the hardware has made the parts.
    device.capacity["memory"] = {Quantity::bytes(grantable_memory(card)), {}};
  } else {
    device.capacity["memory"] =
        capacity(Quantity::bytes(grantable_memory(card)), Quantity::bytes(kMiB), Quantity::bytes(kMiB));
    device.capacity["cores"] = capacity(Quantity::from_int(100), Quantity::from_int(0), Quantity::from_int(1));
    device.allow_multiple_allocations = !card.is_partition();
  }
  device.taints.push_back(taint(kTaintManaged, ""));
  if (foreign_owner) device.taints.push_back(taint(kTaintForeign, *foreign_owner));
  if (!card.healthy) device.taints.push_back(taint(kTaintUnhealthy, card.health_message));
  return device;
}

namespace {

// A partition that is not there yet: what it has of its own, and all else of its card.
model::Device make_part(const vendors::Card& card, const model::Device& form, const std::optional<std::string>& owner) {
  vendors::Card part = card;
  part.uuid.clear();
  part.partition.parent_uuid = card.uuid;
  if (const auto profile = form.attributes.find("profile"); profile != form.attributes.end()) {
    part.partition.profile = std::get<std::string>(profile->second);
  }
  model::Device device = make_device(part, owner);
  device.name = form.name;
  device.capacity = form.capacity;
  device.consumes_counters = form.consumes_counters;
  device.attributes.erase("placement");
  if (const auto place = form.attributes.find("placement"); place != form.attributes.end()) {
    device.attributes["placement"] = place->second;
  }
  return device;
}

}  // namespace

std::vector<std::string> not_offered(const vendors::Inventory& inventory) {
  std::vector<std::string> lines = inventory.skipped;
  std::set<std::string> names;
  for (const vendors::Card& card : inventory.cards) {
    if (const std::string why = obstacle(card, names); !why.empty()) {
      lines.push_back(fmt::format("card {}: {}: {}", card.index, card.uuid, why));
    }
  }
  return lines;
}

std::vector<model::ResourceSlice> desired_slices(const NodeIdentity& node, const std::vector<vendors::Card>& cards,
                                                 const std::map<std::string, std::string>& foreign) {
  return offered_slices(node, {cards, {}}, foreign);
}

std::vector<model::ResourceSlice> offered_slices(const NodeIdentity& node, const Offer& offer,
                                                 const std::map<std::string, std::string>& foreign) {
  SliceBuilder builder(node);
  std::set<std::string> names;
  for (const vendors::Card& card : offer.cards) {
    const auto found = foreign.find(card.uuid);
    const auto owner = found == foreign.end() ? std::nullopt : std::optional(found->second);
    const auto parts = std::ranges::find(offer.parts, card.uuid, [](const Parts& one) { return one.card.uuid; });
    if (obstacle(card, names).empty()) {
      model::Device device = make_device(card, owner);
      if (parts != offer.parts.end() && parts->whole) device.consumes_counters.push_back(*parts->whole);
      builder.add(card.vendor, std::move(device));
    }
    if (parts == offer.parts.end()) continue;
    builder.add_counters(card.vendor, parts->counters);
    for (const model::Device& form : parts->devices) builder.add(card.vendor, make_part(card, form, owner));
  }
  return builder.take();
}

SlicePlan plan_slices(const std::vector<model::ResourceSlice>& desired,
                      const std::vector<model::ResourceSlice>& current, int64_t last_generation) {
  SlicePlan plan;
  plan.generation = last_generation;
  std::map<std::string, const model::ResourceSlice*> by_name;
  for (const model::ResourceSlice& slice : current) {
    by_name[slice.meta.name] = &slice;
    plan.generation = std::max(plan.generation, slice.generation);
  }
  // Slices of one generation must agree on their number; while the kubelet has wiped some, the old generation still
  // holds.
  bool set_changed = false;
  std::set<std::string> wanted;
  for (const model::ResourceSlice& slice : desired) {
    wanted.insert(slice.meta.name);
    const auto found = by_name.find(slice.meta.name);
    if (found != by_name.end() && found->second->pool_slice_count != slice.pool_slice_count) set_changed = true;
  }
  for (const auto& [name, slice] : by_name) {
    if (wanted.contains(name)) continue;
    plan.remove.push_back(name);
    set_changed = true;
  }
  if (set_changed || plan.generation == 0) ++plan.generation;
  for (const model::ResourceSlice& slice : desired) {
    const auto found = by_name.find(slice.meta.name);
    model::ResourceSlice next = slice;
    next.generation = plan.generation;
    if (found == by_name.end()) {
      plan.create.push_back(std::move(next));
    } else if (found->second->generation != plan.generation || !same_content(*found->second, slice)) {
      next.meta.resource_version = found->second->meta.resource_version;
      keep_times(next, *found->second);
      plan.update.push_back(std::move(next));
    }
  }
  return plan;
}

std::map<std::string, std::string> foreign_owners(const std::vector<vendors::Card>& cards,
                                                  const std::vector<model::ResourceSlice>& slices,
                                                  const std::map<std::string, Quantity>& allocatable) {
  std::map<std::string, std::string> owners;
  for (const vendors::Card& card : cards) {
    // A device plugin does not say which cards are its own: all of the vendor's are.
    if (const std::string resource = plugin_resource(card, allocatable); !resource.empty()) {
      owners[card.uuid] = "device-plugin-" + resource;
    }
    for (const model::ResourceSlice& slice : slices) {
      if (slice.driver == kDriver) continue;
      for (const model::Device& device : slice.devices) {
        const std::string* uuid = text_attribute(device, slice.driver, "uuid");
        const std::string* pci = text_attribute(device, slice.driver, "resource.kubernetes.io/pciBusID");
        const bool same_uuid = uuid != nullptr && *uuid == card.uuid;
        const bool same_pci = pci != nullptr && !card.pci_bus_id.empty() && *pci == card.pci_bus_id;
        if (same_uuid || same_pci) owners[card.uuid] = slice.driver;
      }
    }
  }
  return owners;
}

std::set<std::string> offered_cards(const std::vector<model::ResourceSlice>& slices) {
  std::set<std::string> offered;
  for (const model::ResourceSlice& slice : slices) {
    if (slice.driver != kDriver) continue;
    for (const model::Device& device : slice.devices) {
      const std::string* uuid = text_attribute(device, slice.driver, "uuid");
      const bool foreign = std::ranges::find(device.taints, kTaintForeign, &model::Taint::key) != device.taints.end();
      if (uuid != nullptr && !foreign) offered.insert(*uuid);
    }
  }
  return offered;
}

}  // namespace heddle::agent
