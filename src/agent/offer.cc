#include "agent/offer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "catalog/partition_devices.h"
#include "vendors/partition.h"

namespace heddle::agent {
namespace {

std::vector<const GrantedDevice*> made_devices(const std::vector<ClaimRecord>& records) {
  std::vector<const GrantedDevice*> found;
  for (const ClaimRecord& record : records) {
    for (const GrantedDevice& device : record.devices) {
      if (device.made) found.push_back(&device);
    }
  }
  return found;
}

std::string text_of(const model::Device& device, const char* name) {
  const auto found = device.attributes.find(name);
  const std::string* text = found == device.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? std::string() : *text;
}

// The form that a partition of others has; null: the catalogue does not know it.
const model::Device* form_of(const std::vector<model::Device>& forms, const vendors::PartitionPlace& place) {
  const auto found = std::ranges::find_if(forms, [&](const model::Device& form) {
    const auto start = form.attributes.find("placement");
    const bool here = start == form.attributes.end() || std::get<int64_t>(start->second) == place.start;
    return here && text_of(form, "profile") == place.profile;
  });
  return found == forms.end() ? nullptr : &*found;
}

using Counters = std::map<std::string, Quantity>;

bool fits(const model::Device& form, const Counters& left) {
  return std::ranges::all_of(form.consumes_counters.front().counters, [&](const auto& use) {
    const auto counter = left.find(use.first);
    return counter != left.end() && use.second.compare(counter->second) <= 0;
  });
}

// What is left when the partition is there; nothing: it cannot be said.
std::optional<Counters> without(const Counters& all, const model::Device& form) {
  Counters left = all;
  for (const auto& [name, use] : form.consumes_counters.front().counters) {
    const auto counter = left.find(name);
    const auto has = counter == left.end() ? std::nullopt : counter->second.value();
    const auto takes = use.value();
    if (!has || !takes || *has < *takes) return std::nullopt;
    if (*has == *takes) {
      left.erase(counter);
    } else {
      counter->second = name == "memory" ? Quantity::bytes(*has - *takes) : Quantity::from_int(*has - *takes);
    }
  }
  return left;
}

class CardParts {
 public:
  CardParts(const vendors::Card& card, const std::vector<const GrantedDevice*>& made) : card_(card) {
    for (const GrantedDevice* device : made) {
      if (device->made->order.parent_uuid == card.uuid) held_.insert(device->device);
    }
  }

  [[nodiscard]] bool has_held() const { return !held_.empty(); }

  // others: partitions of the card that were not made for claims.
  [[nodiscard]] std::optional<Parts> parts(const catalog::PartitionTable& table,
                                           const std::vector<const vendors::Card*>& others, bool making) const {
    if (table.mode != catalog::PartitionMode::kMixed) return std::nullopt;
    const auto forms = catalog::partition_devices(table, device_name(card_));
    if (!forms) return std::nullopt;
    Parts parts{card_, forms->counters, {}, {}};
    bool known = true;
    for (const vendors::Card* other : others) {
      const model::Device* form = form_of(forms->devices, other->partition);
      auto left = form == nullptr ? std::nullopt : without(parts.counters.counters, *form);
      known = known && left.has_value();
      if (left) parts.counters.counters = *std::move(left);
    }
    for (const model::Device& form : forms->devices) {
      const bool held = held_.contains(form.name);
      const bool can = making && known && fits(form, parts.counters.counters) && form.capacity.contains("memory");
      if (held || can) parts.devices.push_back(form);
    }
    if (parts.devices.empty()) return std::nullopt;
    if (making && others.empty()) parts.whole = forms->whole;
    // What is held was made before the others, or they would not have found room.
    if (!making || !known) parts.counters = forms->counters;
    return parts;
  }

 private:
  const vendors::Card& card_;
  std::set<std::string> held_;  // names of devices
};

}  // namespace

Offer offer_of(const catalog::Catalog& catalog, const std::set<std::string>& making, std::vector<vendors::Card> cards,
               const std::vector<ClaimRecord>& records) {
  Offer offer{std::move(cards), {}};
  const std::vector<const GrantedDevice*> made = made_devices(records);
  std::set<std::string> cut_by_us;
  std::erase_if(offer.cards, [&](const vendors::Card& card) {
    const bool ours = std::ranges::any_of(
        made, [&](const GrantedDevice* device) { return vendors::is_ordered(card, device->made->order); });
    if (ours) cut_by_us.insert(card.partition.parent_uuid);
    return ours;
  });
  for (vendors::Card& card : offer.cards) {
    if (card.is_partition()) continue;
    const CardParts of_card(card, made);
    const bool cut_here = making.contains(card.vendor) && card.cuts;
    if (!cut_here && !of_card.has_held()) continue;
    const catalog::Model* model = catalog.match_product(card.vendor, card.model);
    if (model == nullptr) continue;
    std::vector<const vendors::Card*> others;
    for (const vendors::Card& other : offer.cards) {
      if (other.partition.parent_uuid == card.uuid) others.push_back(&other);
    }
    // There are vNPUs that the driver could not describe.
    if (card.vendor == "ascend" && card.partitioned && others.empty() && !cut_by_us.contains(card.uuid)) continue;
    std::optional<Parts> parts = of_card.parts(model->partitioning, others, cut_here);
    if (!parts) continue;
    // The counters keep the whole NPU from being granted while it is cut.
    if (parts->whole && card.vendor == "ascend") card.partitioned = false;
    parts->card = card;
    offer.parts.push_back(*std::move(parts));
  }
  return offer;
}

vendors::Inventory as_offered(vendors::Inventory inventory, const Offer& offer) {
  for (vendors::Card& card : inventory.cards) {
    const auto known = std::ranges::find(offer.cards, card.uuid, &vendors::Card::uuid);
    if (known != offer.cards.end()) card.partitioned = known->partitioned;
  }
  return inventory;
}

}  // namespace heddle::agent
