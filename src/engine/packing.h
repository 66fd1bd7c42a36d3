// The fleet as src/placement sees it, kept beside the inventory, and the mix of what arrives: the ranking of the policy
// `packing`.
//
// A node is its free cpu, its free memory and what is free of each of its cards (cards.h says which those are); one
// that does not say how much cpu or memory it has, has plenty. Its kind is that of its cards. A request is its cpu,
// memory and a number of equal cards or shares on the kinds of nodes that could serve it: by the selectors of its
// claims, and by the pod's node selector and affinity. Bars, taints, ports, other resources and constraints between
// devices are not in it; who asks goes on to the next node where they are in the way.
//
// Not expressed, so not ranked here: requests with mode All or admin access; that a kind serves with some of its cards
// only; several requests at once of which one is for a share. Of a pod that also asks for devices that are no cards
// (another driver's, partitions), the cards are ranked.
// A share counts with the larger of its memory and its compute part, of the kind of card that it is looked for on; in
// the mix, of the kind that the fleet has most of.
// Among cards that cost alike (Policy::alike) a share goes to the one where tenants disturb each other least
// (interference.h): of the 32 cheapest nodes, and on a node of those cards in use that it leaves in the same sixteenth.
//
// Numbers of nodes and kinds follow their names, so that ties do not depend on the order of events; a node or kind that
// comes out of that order makes the view anew, once, before the next question. Otherwise an event costs its nodes.
// Deterministic, single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/arrivals.h"
#include "engine/cards.h"
#include "engine/inventory.h"
#include "placement/placer.h"

namespace heddle::engine {

struct Placement;

class Packing {
 public:
  struct Ask {
    std::vector<placement::RequestId> variants;  // one for each size that the request has on some kind
    placement::Request mix;                      // what it counts as in the mix
    std::optional<Newcomer> newcomer = {};       // a share, where it matters who is on a card
  };
  // The node, and cards of it in the order in which they should be taken.
  using Take = std::function<Result<bool>(const NodeEntry&, std::vector<const allocator::DeviceInfo*>)>;

  Packing();

  Arrivals& arrivals() { return arrivals_; }
  // Takes in what has changed, and learns when enough has come. Before any question.
  void refresh(State::Impl& state);
  // Nothing: it cannot be expressed, or no kind of node could serve it. Good until the next refresh.
  // Errors: those of the allocator for a request that cannot be meant.
  Result<std::optional<Ask>> ask_of(Placement& placement);
  // Nodes, the cheapest first, until `take` says true.
  Result<bool> visit(const Ask& ask, const Take& take);
  // So many whole cards of the node as are asked for, close together; none where shares are asked for, or too few are
  // free, or packing does not see the node.
  [[nodiscard]] std::vector<const allocator::DeviceInfo*> close_cards(const Ask& ask, const NodeEntry& node) const;
  // The same as visit() for one node alone; false also where packing does not see it.
  Result<bool> visit_node(const Ask& ask, const NodeEntry& node, const Take& take);

 private:
  struct Kind {
    std::string name;
    int64_t cards = 0;
    const NodeEntry* sample = nullptr;
  };
  // How one kind of node stands to one request.
  struct Service {
    enum class Is : uint8_t { kNone, kCards, kInexpressible } is = Is::kNone;
    int64_t count = 0;
    int milli = 0;
  };
  struct Services {
    std::vector<std::vector<Service>> by_request;  // then by kind
    std::vector<bool> for_cards;                   // by request: some kind serves it
  };

  void update(State::Impl& state, const std::string& name);
  void rebuild(State::Impl& state);
  void find_samples();
  void learn(State::Impl& state);
  void drop(const std::string& name);
  static placement::Node node_of(const NodeEntry& entry, placement::Kind kind);
  static Result<Service> service_of(allocator::PreparedRequest& request, const NodeCards& sample);
  static Service together(const Services& services, size_t kind);
  Result<std::optional<Services>> services_of(Placement& placement) const;
  [[nodiscard]] const std::vector<bool>* nodes_allow(const Placement& placement);
  [[nodiscard]] std::vector<size_t> chosen(const Ask& ask, const placement::Choice& choice) const;
  [[nodiscard]] size_t least_disturbed(const Ask& ask, const placement::Choice& choice, size_t card) const;
  [[nodiscard]] int64_t disturbance_of(const Ask& ask, const placement::Choice& choice) const;
  [[nodiscard]] std::vector<const allocator::DeviceInfo*> devices_of(const Ask& ask,
                                                                     const placement::Choice& choice) const;

  std::unique_ptr<placement::Placer> placer_;
  Arrivals arrivals_;
  std::map<std::string, placement::NodeId> numbers_;  // by node
  std::vector<const NodeEntry*> entries_;             // by number; null: gone
  std::vector<Kind> kinds_;                           // by name
  bool rebuild_ = true;
  int64_t observed_ = 0;                              // arrivals, at the last look at what is left
  std::map<std::string, std::vector<bool>> allowed_;  // kinds by fit signature, while no node is reshaped
};

}  // namespace heddle::engine
