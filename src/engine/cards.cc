#include "engine/cards.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "base/key_text.h"
#include "engine/inventory.h"
#include "placement/types.h"

namespace heddle::engine {
namespace {

using allocator::DeviceInfo;
using allocator::Held;
using placement::kWholeCard;

constexpr int64_t kMillionthsInMilli = 1000;
constexpr const char* kPcieRoot = "resource.kubernetes.io/pcieRoot";
constexpr const char* kNumaNode = "resource.kubernetes.io/numaNode";
constexpr const char* kLinkDomain = "linkDomain";

bool keeps_away(const model::Taint& taint, const allocator::Options& options) {
  if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") return false;
  return std::none_of(options.own_tolerations.begin(), options.own_tolerations.end(),
                      [&](const model::Toleration& own) { return model::tolerates(own, taint); });
}

}  // namespace

bool keeps_all_away(const DeviceInfo& device, const allocator::Options& options) {
  const auto& taints = device.device->taints;
  return std::any_of(taints.begin(), taints.end(),
                     [&](const model::Taint& taint) { return keeps_away(taint, options); });
}

bool is_open(const NodeEntry& node) {
  return std::none_of(node.taints.begin(), node.taints.end(), [](const model::Taint& taint) {
    return taint.key == model::kUnschedulableTaint || taint.key == model::kNotReadyTaint ||
           taint.key == model::kUnreachableTaint;
  });
}

namespace {

bool is_card(const DeviceInfo& device, const allocator::Options& options) {
  if (device.scope->kind != model::NodeScope::Kind::kNode || is_partition(device)) return false;
  return !keeps_all_away(device, options);
}

std::string kind_of(const DeviceInfo& device) {
  std::string kind;
  for (const char* name : {"vendor", "model", "type", "isolation"}) append_part(kind, attribute_text(device, name));
  append_part(kind, int64_t{device.uses_counters});
  append_part(kind, int64_t{device.shape->shared});
  for (const allocator::CapacityInfo& capacity : device.shape->capacities) {
    append_part(kind, capacity.name);
    append_part(kind, capacity.published.value.to_string());
  }
  return kind;
}

// Numbers for the values that one attribute has on a node.
class Places {
 public:
  explicit Places(const char* name) : name_(name) {}
  int32_t of(const DeviceInfo& device) {
    const model::AttributeValue* value = device.published->find_attribute(device.pool->driver, name_);
    if (value == nullptr) return -1;
    const auto known = std::find(values_.begin(), values_.end(), *value);
    if (known != values_.end()) return static_cast<int32_t>(known - values_.begin());
    values_.push_back(*value);
    return static_cast<int32_t>(values_.size() - 1);
  }

 private:
  const char* name_;
  std::vector<model::AttributeValue> values_;
};

bool counters_allow(const DeviceInfo& device) {
  return std::all_of(device.counters.begin(), device.counters.end(), [&](const allocator::CounterUse& use) {
    const allocator::CounterInfo& counter = device.pool->counters[use.counter];
    return counter.used + use.amount <= counter.total;
  });
}

// --- close_together ---

enum Level : uint8_t { kRoot, kNuma, kLink, kLevels };

std::array<int32_t, 3> place_of(const Card& card, size_t level) {
  return {card.link, level <= kNuma ? card.numa : -1, level <= kRoot ? card.root : -1};
}

// By place, in the order in which the first card of each comes.
std::vector<std::vector<size_t>> split(const std::vector<Card>& cards, const std::vector<size_t>& from, size_t level) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::array<int32_t, 3>, size_t> known;
  for (const size_t card : from) {
    const auto [at, added] = known.emplace(place_of(cards[card], level), groups.size());
    if (added) groups.emplace_back();
    groups[at->second].push_back(card);
  }
  return groups;
}

// The smallest that has enough; null: none has.
std::vector<size_t>* tightest(std::vector<std::vector<size_t>>& groups, size_t count) {
  std::vector<size_t>* best = nullptr;
  for (std::vector<size_t>& group : groups) {
    if (group.size() >= count && (best == nullptr || group.size() < best->size())) best = &group;
  }
  return best;
}

// From as few places of each level below `levels` as can be.
void fill(const std::vector<Card>& cards, const std::vector<size_t>& from, size_t count, size_t levels,
          std::vector<size_t>& out) {
  if (levels == 0) {
    out.insert(out.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    return;
  }
  std::vector<std::vector<size_t>> groups = split(cards, from, levels - 1);
  while (count > 0) {
    std::vector<size_t>* group = tightest(groups, count);
    if (group == nullptr) {
      group = &*std::max_element(groups.begin(), groups.end(),
                                 [](const auto& a, const auto& b) { return a.size() < b.size(); });
    }
    const size_t here = std::min(count, group->size());
    fill(cards, *group, here, levels - 1, out);
    count -= here;
    group->clear();
  }
}

std::vector<size_t> in_fewest_places(const std::vector<Card>& cards, const std::vector<size_t>& from, size_t count) {
  std::vector<size_t> out;
  for (size_t level = kRoot; level < kLevels; ++level) {
    std::vector<std::vector<size_t>> groups = split(cards, from, level);
    std::vector<size_t>* group = tightest(groups, count);
    if (group == nullptr) continue;
    fill(cards, *group, count, level, out);
    return out;
  }
  fill(cards, from, count, kLevels, out);
  return out;
}

constexpr size_t kFewestDies = 2;

// Dies of modules, of those that may be taken. A module of which not every die is among them is broken.
struct Dies {
  size_t of_a_module = 0;                       // 0: there are no modules
  std::map<size_t, std::vector<size_t>> whole;  // by the first die of each
  std::vector<size_t> firsts;
  std::vector<size_t> others;  // of broken modules, or of none
};

Dies dies_among(const std::vector<Card>& cards, const std::vector<size_t>& from) {
  Dies dies;
  std::map<int32_t, size_t> sizes;
  for (const Card& card : cards) {
    if (card.module >= 0) dies.of_a_module = std::max({dies.of_a_module, kFewestDies, ++sizes[card.module]});
  }
  if (dies.of_a_module == 0) return dies;
  std::map<int32_t, std::vector<size_t>> here;
  for (const size_t card : from) here[cards[card].module].push_back(card);
  for (const size_t card : from) {
    const std::vector<size_t>& module = here[cards[card].module];
    if (cards[card].module < 0 || module.size() < dies.of_a_module) {
      dies.others.push_back(card);
    } else if (module.front() == card) {
      dies.firsts.push_back(card);
      dies.whole[card] = module;
    }
  }
  return dies;
}

}  // namespace

std::string attribute_text(const DeviceInfo& device, const char* name) {
  const model::AttributeValue* value = device.published->find_attribute(device.pool->driver, name);
  const std::string* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string() : *text;
}

bool is_partition(const DeviceInfo& device) {
  return attribute_text(device, "type") == "partition";
}

uint16_t free_milli(const DeviceInfo& device) {
  const Held& held = device.held;
  if (held.whole > 0 || held.alone > 0) return 0;
  if (held.shares == 0) return counters_allow(device) ? kWholeCard : 0;
  if (!device.shape->shared) return 0;
  int64_t most = 1;
  for (size_t i = 0; i < held.used.size(); ++i) {
    most = std::max(most, device.shape->capacities[i].millionths(held.used[i]) / kMillionthsInMilli);
  }
  return static_cast<uint16_t>(std::max<int64_t>(kWholeCard - most, 0));
}

int milli_of(const allocator::Shape& shape, const allocator::Consumption& take) {
  if (take.alone || !shape.shared || take.amounts.empty()) return kWholeCard;
  int64_t most = 1;
  for (size_t i = 0; i < take.amounts.size(); ++i) {
    most = std::max(most, shape.capacities[i].millionths(take.amounts[i]) / kMillionthsInMilli);
  }
  return static_cast<int>(std::min<int64_t>(most, kWholeCard));
}

NodeCards cards_of(const NodeEntry& node, const std::string& managed_driver, const allocator::Options& options) {
  NodeCards found;
  if (!is_open(node)) return found;
  Places links(kLinkDomain);
  Places roots(kPcieRoot);
  Places numas(kNumaNode);
  Places modules(kModuleAttribute);
  bool one_kind = true;
  for (const allocator::PoolView& view : node.view.pools) {
    if (view.pool->driver != managed_driver || view.pool->incomplete || !view.pool->invalid.empty()) continue;
    for (const DeviceInfo* device : view.devices) {
      if (!is_card(*device, options)) continue;
      std::string kind = kind_of(*device);
      one_kind = one_kind && (found.cards.empty() || kind == found.kind);
      found.kind = std::move(kind);
      found.cards.push_back({device, links.of(*device), roots.of(*device), numas.of(*device), modules.of(*device)});
    }
  }
  if (one_kind && found.cards.size() <= placement::kMaxCards) return found;
  found.kind.clear();
  return found;
}

std::vector<size_t> close_together(const std::vector<Card>& cards, const std::vector<size_t>& from, size_t count) {
  const Dies dies = dies_among(cards, from);
  if (dies.of_a_module == 0) return in_fewest_places(cards, from, count);
  size_t modules = std::min(count / dies.of_a_module, dies.firsts.size());
  if (count > modules * dies.of_a_module + dies.others.size()) ++modules;  // the last one is broken
  std::vector<size_t> out;
  for (const size_t first : in_fewest_places(cards, dies.firsts, modules)) {
    const std::vector<size_t>& module = dies.whole.at(first);
    out.insert(out.end(), module.begin(), module.end());
  }
  out.resize(std::min(out.size(), count));
  if (out.size() == count) return out;
  const std::vector<size_t> close = in_fewest_places(cards, dies.others, count - out.size());
  out.insert(out.end(), close.begin(), close.end());
  return out;
}

}  // namespace heddle::engine
