// Which cards of their nodes the members of a gang get: those of one member close together, as a pod alone gets them.
#include <algorithm>

#include "engine/cards.h"
#include "engine/gang_place.h"
#include "placement/types.h"

namespace heddle::engine {
namespace {

// Several whole cards by one request, and nothing else; or one die of a module.
const allocator::Alternative* several_whole(const Placement& placement, const NodeEntry& node) {
  if (placement.claims.size() != 1 || placement.claims[0].requests.size() != 1) return nullptr;
  const auto& alternatives = placement.claims[0].requests[0].alternatives;
  const int64_t fewest = node.modules.dies > 0 ? 1 : 2;
  if (alternatives.size() != 1 || alternatives[0].all || alternatives[0].count < fewest) return nullptr;
  const bool whole = alternatives[0].spec->capacity.empty() && !alternatives[0].memory_percent;
  return whole ? &alternatives[0] : nullptr;
}

bool free_in(const Overlay& overlay, const allocator::DeviceInfo& device) {
  for (const auto& [other, held] : overlay.assumption.instead) {
    if (other == &device) return nobody_holds(held);
  }
  return free_milli(device) == placement::kWholeCard;
}

}  // namespace

// Nothing: the member does not ask for several whole cards, or takes all that are free.
std::vector<const allocator::DeviceInfo*> GangSearch::close_cards(size_t node, size_t group,
                                                                  const Overlay& overlay) const {
  std::vector<const allocator::DeviceInfo*> close;
  const NodeEntry& entry = *nodes_[node];
  const allocator::Alternative* asked = several_whole(groups_[group]->placement(), entry);
  if (asked == nullptr) return close;
  const State::Impl& state = state_.inside();
  NodeCards seen;
  if (entry.reshaped) seen = cards_of(entry, state.managed_driver, state.options);
  const std::vector<Card>& cards = entry.reshaped ? seen.cards : entry.cards.cards;
  std::vector<size_t> from;
  for (size_t i = 0; i < cards.size(); ++i) {
    if (free_in(overlay, *cards[i].device) && asked->query->selects(*cards[i].device)) from.push_back(i);
  }
  const auto count = static_cast<size_t>(asked->count);
  if (from.size() <= count) return close;
  for (const size_t card : close_together(cards, from, count)) close.push_back(cards[card].device);
  return close;
}

// On each node anew, one member after the other; where that does not come out, the node stays as it was.
Result<void> GangSearch::bring_together(GangAttempt& made) {
  std::map<size_t, std::vector<size_t>> by_node;
  for (size_t i = 0; i < made.members.size(); ++i) {
    const auto& spot = made.members[i];
    if (spot && several_whole(groups_[spot->group]->placement(), *nodes_[spot->node]) != nullptr)
      by_node[spot->node].push_back(i);
  }
  std::map<size_t, size_t> there;
  for (const auto& spot : made.members) {
    if (spot) ++there[spot->node];
  }
  for (const auto& [node, members] : by_node) {
    if (there[node] != members.size()) continue;  // beside shares and others, as the search had it
    const auto freed = freed_.find(node);
    Overlay overlay = freed == freed_.end() ? Overlay{} : freed->second;
    std::vector<allocator::Solution> anew;
    for (const size_t member : members) {
      const size_t group = made.members[member]->group;
      auto close = close_cards(node, group, overlay);
      HEDDLE_TRY(auto solution, groups_[group]->take_of(*nodes_[node], overlay, std::move(close)));
      if (!solution) break;
      anew.push_back(*std::move(solution));
    }
    if (anew.size() != members.size()) continue;
    for (size_t i = 0; i < members.size(); ++i) made.members[members[i]]->solution = std::move(anew[i]);
  }
  return {};
}

}  // namespace heddle::engine
