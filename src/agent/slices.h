// The ResourceSlices of this node: what they should be, and what has to be written to get there. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/device.h"
#include "vendors/vendor.h"

namespace heddle::agent {

struct NodeIdentity {
  std::string name;
  std::string uid;
  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

// "gpu-<minor>"; of a partition "gpu-<minor>-<profile>-<first slice>"
std::string device_name(const vendors::Card& card);
// "<node>/<vendor>"
std::string pool_name(const std::string& node, const std::string& vendor);
// What may be granted of a card: whole MiB, rounded down.
int64_t grantable_memory(const vendors::Card& card);

model::Device make_device(const vendors::Card& card, const std::optional<std::string>& foreign_owner);

// What the driver counts and this node does not offer, one line each with the reason. For logs and metrics.
std::vector<std::string> not_offered(const vendors::Inventory& inventory);

// The slices of one vendor's cards, in the order of their names, at most 64 devices each; generation and
// resourceVersion are left to plan_slices(). Without the cards of not_offered(). foreign: uuid -> who else serves the
// card.
std::vector<model::ResourceSlice> desired_slices(const NodeIdentity& node, const std::vector<vendors::Card>& cards,
                                                 const std::map<std::string, std::string>& foreign);

// The hard partitions that are made of one card when claims get them.
struct Parts {
  vendors::Card card;
  model::CounterSet counters;  // of the card, without what others have made of it
  // What the card takes of them when it is granted as a whole or shared. None: it is not offered so, or stands alone.
  std::optional<model::CounterConsumption> whole;
  std::vector<model::Device> devices;  // of catalog/partition_devices.h
};

struct Offer {
  std::vector<vendors::Card> cards;  // also the partitions that exist and were made for no claim
  std::vector<Parts> parts;
};

// As desired_slices(), with what can be made of the cards: counter sets in slices of their own, and a card's partitions
// behind it.
std::vector<model::ResourceSlice> offered_slices(const NodeIdentity& node, const Offer& offer,
                                                 const std::map<std::string, std::string>& foreign);

struct SlicePlan {
  std::vector<model::ResourceSlice> create;
  std::vector<model::ResourceSlice> update;  // with the resourceVersion that is replaced
  std::vector<std::string> remove;
  int64_t generation = 1;  // of the pool after the plan
  [[nodiscard]] bool empty() const { return create.empty() && update.empty() && remove.empty(); }
};

// `current`: the slices of our driver on this node. last_generation: the newest that this process wrote or saw (0:
// none); it outlives a wipe by the kubelet. The generation is raised only when the set of slices changes.
SlicePlan plan_slices(const std::vector<model::ResourceSlice>& desired,
                      const std::vector<model::ResourceSlice>& current, int64_t last_generation);

// Cards that someone else serves, by the slices of other drivers on this node (uuid, PCI address) and by allocatable
// extended resources of the vendor's device plugin: uuid -> who.
std::map<std::string, std::string> foreign_owners(const std::vector<vendors::Card>& cards,
                                                  const std::vector<model::ResourceSlice>& slices,
                                                  const std::map<std::string, Quantity>& allocatable);

// uuids of the cards that our own slices among these offer to nobody else: those without the mark of another owner.
std::set<std::string> offered_cards(const std::vector<model::ResourceSlice>& slices);

}  // namespace heddle::agent
