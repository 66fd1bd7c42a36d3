#include "engine/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "allocator/allocator.h"

namespace heddle::engine {
namespace {

using allocator::Amount;
using allocator::DeviceInfo;
using allocator::Shape;

// Cards of Heddle's driver are spoken of as people do: memory, and percent of compute.
bool is_card(const Shape& shape) {
  return shape.alone >= 0 && shape.memory >= 0;
}

std::string amount_text(const allocator::CapacityInfo& capacity, Amount amount) {
  return allocator::quantity_of(amount, capacity.published.value.format()).to_string();
}

std::string amounts_text(const Shape& shape, const std::vector<Amount>& amounts) {
  if (is_card(shape)) {
    const auto memory = static_cast<size_t>(shape.memory);
    const auto cores = static_cast<size_t>(shape.alone);
    return fmt::format("{} and {}%", amount_text(shape.capacities[memory], amounts[memory]),
                       amount_text(shape.capacities[cores], amounts[cores]));
  }
  std::vector<std::string> parts;
  parts.reserve(amounts.size());
  for (size_t i = 0; i < amounts.size(); ++i) {
    parts.push_back(fmt::format("{} {}", shape.capacities[i].name, amount_text(shape.capacities[i], amounts[i])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ask_text(const allocator::Alternative& alternative, std::string_view device, std::string_view card) {
  const auto& capacity = alternative.spec->capacity;
  if (alternative.device_class->meta.name.starts_with("heddle")) {
    const auto cores = capacity.find("cores");
    const bool any =
        cores != capacity.end() && cores->second.to_string() == "0";  // no share of the compute is asked for
    const std::string compute = cores == capacity.end() ? " and all compute"
                                : any                   ? ""
                                                        : " and " + cores->second.to_string() + "%";
    if (alternative.memory_percent) {
      return fmt::format("{} with {}% of its memory{}", card, *alternative.memory_percent, compute);
    }
    const auto memory = capacity.find("memory");
    if (memory != capacity.end()) return fmt::format("{} with {}{}", card, memory->second.to_string(), compute);
    if (cores != capacity.end()) return fmt::format("{} with all its memory{}", card, compute);
    return fmt::format("whole {}", card);
  }
  std::vector<std::string> parts;
  parts.reserve(capacity.size());
  for (const auto& [name, quantity] : capacity) parts.push_back(fmt::format("{} {}", name, quantity.to_string()));
  const std::string with = parts.empty() ? "" : fmt::format(" with {}", fmt::join(parts, ", "));
  return fmt::format("{} of class {}{}", device, alternative.spec->device_class, with);
}

std::string plain_amount(const std::string& resource, int64_t amount) {
  if (resource == "cpu")
    return allocator::quantity_of(amount * (allocator::kUnit / 1000), Quantity::Format::kDecimalSi).to_string();
  const bool bytes = resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
  return Quantity::from_int(amount, bytes ? Quantity::Format::kBinarySi : Quantity::Format::kDecimalSi).to_string();
}

}  // namespace

DeviceKey key_of_device(const DeviceInfo& device) {
  return {device.pool->driver, device.pool->name, device.name()};
}

std::string describe_ask(const allocator::Alternative& alternative) {
  return ask_text(alternative, "device", "card");
}

std::string describe_asks(const allocator::Alternative& alternative) {
  return ask_text(alternative, "devices", "cards");
}

std::string describe_free(const DeviceInfo& device, const Ledger& ledger) {
  const Shape& shape = *device.shape;
  const allocator::Held& held = device.held;
  const auto* holdings = ledger.find(key_of_device(device));
  if (holdings != nullptr && (held.whole > 0 || held.alone > 0 || !shape.shared)) {
    const auto has =
        std::find_if(holdings->begin(), holdings->end(), [](const Holding& holding) { return !holding.grant->kept; });
    if (has == holdings->end()) return fmt::format("nothing, it is kept for {}", holdings->front().grant->holder);
    return fmt::format("nothing, {} has it alone", has->grant->holder);
  }
  if (shape.capacities.empty()) return holdings == nullptr ? "all of it" : "nothing more to share";
  std::vector<Amount> free;
  for (size_t i = 0; i < shape.capacities.size(); ++i) {
    const Amount left = shape.capacities[i].value - (held.used.empty() ? 0 : held.used[i]);
    free.push_back(std::max<Amount>(left, 0));
  }
  return amounts_text(shape, free);
}

std::string describe_size(const DeviceInfo& device) {
  std::vector<Amount> all;
  for (const allocator::CapacityInfo& capacity : device.shape->capacities) all.push_back(capacity.value);
  return all.empty() ? "it has no capacities" : amounts_text(*device.shape, all);
}

std::string describe_taint(const DeviceInfo& device, const std::string& node,
                           const allocator::Alternative& alternative) {
  for (const model::Taint& taint : device.device->taints) {
    if (taint.key != "heddle.dev/foreign-owner") continue;
    return fmt::format(
        "no {}: {} of {} is served by another driver or in use outside Heddle; it can be granted when it is idle",
        describe_ask(alternative), device.name(), node);
  }
  std::string names;
  for (const model::Taint& taint : device.device->taints) {
    if (taint.key == "heddle.dev/managed" || (taint.effect != "NoSchedule" && taint.effect != "NoExecute")) continue;
    names += fmt::format("{}{}:{}", names.empty() ? "" : ", ", taint.key, taint.effect);
  }
  return fmt::format("no {}: {} of {} has the taint {}, which the request does not tolerate", describe_ask(alternative),
                     device.name(), node, names);
}

std::string describe_shortage(const Shortage& shortage) {
  return fmt::format("{}: the pod needs {}, {} of {} is free", shortage.resource,
                     plain_amount(shortage.resource, shortage.needed), plain_amount(shortage.resource, shortage.free),
                     plain_amount(shortage.resource, shortage.allocatable));
}

std::string describe_never(const Shortage& shortage, const std::string& node) {
  return fmt::format("the pod needs {}, the most is {} on {}", plain_amount(shortage.resource, shortage.needed),
                     plain_amount(shortage.resource, shortage.allocatable), node);
}

int64_t free_rank(const DeviceInfo& device) {
  const allocator::Held& held = device.held;
  if (held.whole > 0 || held.alone > 0 || (!device.shape->shared && held.shares > 0)) return 0;
  if (!device.shape->shared || device.shape->capacities.empty()) return 1'000'000;
  allocator::Consumption nothing;
  nothing.amounts.resize(device.shape->capacities.size());
  return allocator::BestFit().rank(device, nothing, held.used);
}

bool larger(const DeviceInfo& a, const DeviceInfo& b) {
  const Shape& left = *a.shape;
  const Shape& right = *b.shape;
  if (left.memory >= 0 && right.memory >= 0) {
    return left.capacities[static_cast<size_t>(left.memory)].value >
           right.capacities[static_cast<size_t>(right.memory)].value;
  }
  return std::lexicographical_compare(
      right.capacities.begin(), right.capacities.end(), left.capacities.begin(), left.capacities.end(),
      [](const allocator::CapacityInfo& x, const allocator::CapacityInfo& y) { return x.value < y.value; });
}

std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  if (names.size() == 1) return names.front();
  if (names.size() > kShown) {
    return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kShown, ", "), names.size() - kShown);
  }
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

std::string describe_bar(Bar bar, const std::vector<std::string>& names) {
  const bool one = names.size() == 1;
  const auto say = [&](const char* singular, const char* plural, const char* what) {
    return fmt::format("{} {} {}", list_names(names), one ? singular : plural, what);
  };
  switch (bar) {
    case Bar::kExcluded:
      return say("failed this pod before and is", "failed this pod before and are", "tried again later");
    case Bar::kHeld:
      return say("is", "are", "held for work that others are evicted for");
    case Bar::kKeptWhole:
      return say("is", "are", "kept whole for boxes that queues are guaranteed");
    case Bar::kReserved:
      return say("is", "are", "kept empty for nodes that fail");
    case Bar::kCordoned:
      return say("is", "are", "marked unschedulable");
    case Bar::kNotReady:
      return say("is", "are", "not ready");
    case Bar::kTaint:
      return say("has", "have", "a taint that the pod does not tolerate");
    case Bar::kNone:
    case Bar::kPinned:
    case Bar::kSelector:
    case Bar::kVolume:
      break;
  }
  return say("is", "are", "out of the question");
}

std::string describe_bars(const std::map<Bar, std::vector<std::string>>& names) {
  std::string text;
  for (const auto& [bar, nodes] : names) text += (text.empty() ? "" : ", ") + describe_bar(bar, nodes);
  return text;
}

std::string list_holders(const std::vector<const Grant*>& grants) {
  std::vector<std::string> names;
  for (const Grant* grant : grants) {
    if (std::find(names.begin(), names.end(), grant->holder) == names.end()) names.push_back(grant->holder);
  }
  return list_names(names);
}

std::string list_requests(const std::vector<allocator::PreparedClaim>& claims) {
  std::vector<std::string> parts;
  for (const allocator::PreparedClaim& claim : claims) {
    for (const allocator::PreparedRequest& request : claim.requests) {
      const allocator::Alternative& first = request.alternatives.front();
      const int64_t count = first.all ? 1 : first.count;
      parts.push_back(count == 1 ? "a " + describe_ask(first) : fmt::format("{} {}", count, describe_asks(first)));
    }
  }
  return parts.empty() ? "nothing" : list_names(parts);
}

}  // namespace heddle::engine
