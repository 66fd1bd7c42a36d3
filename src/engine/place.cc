#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "codec/codec.h"
#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

using allocator::Alternative;
using allocator::Assumption;
using allocator::DeviceInfo;

// What the ShareConfigs of a claim say of its requests.
struct Configured {
  std::map<std::string, int64_t> memory_percent;
  std::map<std::string, int64_t> virtual_memory;
  std::map<std::string, std::vector<allocator::Condition>> conditions;
};

// Managed memory that moves by itself is NVIDIA's, and of cards that are shared.
constexpr const char* kMovesPages =
    R"(device.driver == "accelerator.heddle.dev" && device.attributes["accelerator.heddle.dev"].vendor == "nvidia" )"
    R"(&& device.attributes["accelerator.heddle.dev"].type == "card")";

// The node's agent says where a control daemon of MPS serves.
constexpr const char* kHasMps =
    R"(device.driver == "accelerator.heddle.dev" && "mps" in device.attributes["accelerator.heddle.dev"] )"
    R"(&& device.attributes["accelerator.heddle.dev"].mps)";

// Writes a value down for the requests that a configuration speaks of. Errors: one of them has another already.
Result<void> note(std::map<std::string, int64_t>& values, const std::vector<std::string>& names, int64_t value,
                  const char* what) {
  for (const std::string& name : names) {
    const auto [known, added] = values.emplace(name, value);
    if (added || known->second == value) continue;
    return fail(Code::kInvalidArgument,
                "request " + name + " has two different " + what + ": leave one ShareConfig out");
  }
  return {};
}

Result<void> take_share(const ClaimRequest& claim, size_t index, Configured& out) {
  const model::OpaqueConfig& config = claim.spec.config[index];
  const std::string field =
      "claim " + claim.key + ": spec.devices.config[" + std::to_string(index) + "].opaque.parameters";
  const auto share = codec::parse_share_config(config.parameters_json);
  if (!share) return fail(share.error().code, share.error().text(), field);
  if (!*share) return {};
  std::vector<std::string> names = config.requests;
  for (const model::DeviceRequest& request : claim.spec.requests) {
    if (config.requests.empty()) names.push_back(request.name);
  }
  Result<void> noted;
  if (const auto percent = (*share)->memory_percent) noted = note(out.memory_percent, names, *percent, "memoryPercent");
  if (const auto bytes = (*share)->virtual_memory; noted && bytes) {
    noted = note(out.virtual_memory, names, *bytes, "virtualMemory");
    for (const std::string& name : names) {
      out.conditions[name].push_back(
          {kMovesPages, "virtualMemory, which cards of NVIDIA have and MIG instances have not"});
    }
  }
  if ((*share)->isolation == model::kIsolationMps) {
    for (const std::string& name : names) {
      out.conditions[name].push_back(
          {kHasMps, "isolation mps, which cards of nodes with a control daemon of MPS have"});
    }
  }
  if (!noted) return fail(noted.error().code, noted.error().message, field);
  return {};
}

// From the configuration of the claim for our driver.
Result<Configured> configured(const ClaimRequest& claim, const std::string& driver) {
  Configured out;
  for (size_t i = 0; i < claim.spec.config.size(); ++i) {
    if (claim.spec.config[i].driver == driver) HEDDLE_CHECK_OK(take_share(claim, i, out));
  }
  return out;
}

// Configuration for our driver that comes with a class is not read, so it must not be passed over in silence.
Result<void> check_class_config(const State::Impl& state, const ClaimRequest& claim) {
  const auto check = [&](const model::DeviceSubRequest& request) -> Result<void> {
    const auto found = state.classes.find(request.device_class);
    if (found == state.classes.end()) return {};
    for (size_t i = 0; i < found->second.config.size(); ++i) {
      if (found->second.config[i].driver != state.managed_driver) continue;
      return fail(
          Code::kUnsupported,
          "configuration for this driver is taken from claims only: write it in spec.devices.config of the claim",
          "class " + request.device_class + ": spec.config[" + std::to_string(i) + "].opaque");
    }
    return {};
  };
  for (const model::DeviceRequest& request : claim.spec.requests) {
    if (request.exactly) HEDDLE_CHECK_OK(check(*request.exactly));
    for (const model::DeviceSubRequest& alternative : request.first_available) HEDDLE_CHECK_OK(check(alternative));
  }
  return {};
}

Result<std::vector<allocator::ClaimInput>> claim_inputs(const State::Impl& state, const PlacementRequest& request) {
  std::vector<allocator::ClaimInput> inputs;
  for (const ClaimRequest& claim : request.claims) {
    HEDDLE_CHECK_OK(check_class_config(state, claim));
    HEDDLE_TRY(Configured more, configured(claim, state.managed_driver));
    inputs.push_back({.key = claim.key,
                      .spec = &claim.spec,
                      .memory_percent = std::move(more.memory_percent),
                      .conditions = std::move(more.conditions)});
  }
  return inputs;
}

// A node that may serve all claims, with the least that its best solution can rank.
struct Prospect {
  const NodeEntry* node = nullptr;
  int64_t node_rank = 0;
  int64_t bound = 0;
  int64_t free = 0;

  [[nodiscard]] std::array<int64_t, 3> order() const { return {node_rank, bound, free}; }
};

Result<std::optional<Prospect>> prospect_of(Placement& placement, const NodeEntry& node) {
  Prospect prospect{.node = &node};
  const Assumption now;
  for (allocator::PreparedClaim& claim : placement.claims) {
    for (allocator::PreparedRequest& request : claim.requests) {
      std::optional<int64_t> least;
      for (Alternative& alternative : request.alternatives) {
        HEDDLE_TRY(const RequestOutlook outlook, outlook_of(node, alternative, placement.policy, now));
        if (!outlook.enough) continue;
        const int64_t rank = alternative.all ? 0 : outlook.best_rank * alternative.count;
        least = std::min(least.value_or(rank), rank);
      }
      if (!least) return std::optional<Prospect>();
      prospect.bound += *least;
    }
  }
  prospect.node_rank = placement.policy.node_rank(node);
  prospect.free = placement.policy.free_rank(free_millionths(node));
  return std::optional(prospect);
}

bool plainly_open(const Placement& placement, const NodeEntry& node) {
  return placement.bar_of(node) == Bar::kNone && !placement.shortage_of(node, false) &&
         !placement.port_conflict_on(node);
}

Result<std::vector<Prospect>> prospects(Placement& placement) {
  std::vector<Prospect> result;
  const auto& all = placement.state.inventory.nodes();
  const auto& pinned = placement.request.pinned_node;
  auto it = pinned ? all.lower_bound(*pinned) : all.begin();
  for (; it != all.end() && (!pinned || it->first == *pinned); ++it) {
    const NodeEntry& node = it->second;
    if (!plainly_open(placement, node)) continue;
    HEDDLE_TRY(const std::optional<Prospect> prospect, prospect_of(placement, node));
    if (prospect) result.push_back(*prospect);
  }
  const auto& preferred = placement.request.preferred_node;
  // Nodes come in name order, so equal ones stay in it.
  std::stable_sort(result.begin(), result.end(), [&](const Prospect& a, const Prospect& b) {
    const bool a_preferred = preferred && a.node->view.node == *preferred;
    const bool b_preferred = preferred && b.node->view.node == *preferred;
    if (a_preferred != b_preferred) return a_preferred;
    return a.order() < b.order();
  });
  return result;
}

// A pool that is being updated or is broken keeps mode All off this node; another node may serve it.
Result<const allocator::Solution*> solve_on(Placement& placement, const NodeEntry& node, const Assumption& assumption) {
  if (!placement.solver) placement.solver.emplace(placement.claims, placement.policy, placement.state.options);
  const std::optional<Assumption> seen = placement.seen_on(node, assumption);
  auto solution = placement.solver->solve(node.view, seen ? *seen : assumption);
  if (!solution && solution.error().code == Code::kUnavailable) return nullptr;
  return solution;
}

// So many nodes may be too hard to search before the whole call is given up.
constexpr int kMaxGivenUp = 4;

struct Best {
  const NodeEntry* node = nullptr;
  allocator::Solution solution;
  std::array<int64_t, 3> order = {};  // as Prospect::order(), with the rank of the solution
};

Result<std::optional<Best>> best_of(Placement& placement) {
  HEDDLE_TRY(const std::vector<Prospect> nodes, prospects(placement));
  std::optional<Best> best;
  std::optional<Error> given_up;
  int times_given_up = 0;
  const auto& preferred = placement.request.preferred_node;
  for (const Prospect& prospect : nodes) {
    if (best && preferred && best->node->view.node == *preferred) break;
    if (best && prospect.order() >= best->order) break;  // sorted: nothing behind can be better
    auto found = solve_on(placement, *prospect.node, {});
    if (!found && found.error().code == Code::kExhausted && ++times_given_up < kMaxGivenUp) {
      given_up = found.error();
      continue;
    }
    HEDDLE_TRY(const allocator::Solution* solution, std::move(found));
    if (solution == nullptr) continue;
    const std::array<int64_t, 3> order{prospect.node_rank, solution->rank, prospect.free};
    if (!best || order < best->order) best = Best{prospect.node, *solution, order};
  }
  if (!best && given_up) return tl::unexpected<Error>(*given_up);  // not a "no"
  return best;
}

// The first node in the order of packing that the exact allocator takes. Nothing: none of those that packing sees.
Result<std::optional<Best>> packed(State::Impl& state, Placement& placement) {
  state.packing.refresh(state);
  HEDDLE_TRY(const std::optional<Packing::Ask> ask, state.packing.ask_of(placement));
  std::optional<Best> best;
  if (!ask) return best;
  int times_given_up = 0;
  const auto take = [&](const NodeEntry& node, std::vector<const DeviceInfo*> devices) -> Result<bool> {
    if (!plainly_open(placement, node)) return false;
    placement.policy.choose(std::move(devices));
    auto found = solve_on(placement, node, {});
    if (!found && found.error().code == Code::kExhausted) return ++times_given_up == kMaxGivenUp;
    HEDDLE_TRY(const allocator::Solution* solution, std::move(found));
    if (solution != nullptr) best = Best{.node = &node, .solution = *solution};
    return solution != nullptr;
  };
  const auto& nodes = state.inventory.nodes();
  const auto& only = placement.request.pinned_node;
  const auto& first = only ? only : placement.request.preferred_node;
  if (const auto node = first ? nodes.find(*first) : nodes.end(); node != nodes.end()) {
    HEDDLE_TRY(bool taken, state.packing.visit_node(*ask, node->second, take));
    if (!taken) {
      HEDDLE_TRY(taken, take(node->second, {}));
    }
    if (taken) return best;
  }
  if (!only) {
    HEDDLE_TRY([[maybe_unused]] const bool taken, state.packing.visit(*ask, take));
  }
  placement.policy.choose({});
  return best;
}

// Whole cards lie equally well for the policies that only look at what is free: the closest together are taken, and of
// dies of modules those of a broken one.
Result<void> bring_together(State::Impl& state, Placement& placement, Best& best) {
  state.packing.refresh(state);
  HEDDLE_TRY(const std::optional<Packing::Ask> ask, state.packing.ask_of(placement));
  if (!ask || (ask->mix.cards < 2 && best.node->modules.dies == 0)) return {};
  std::vector<const DeviceInfo*> close = state.packing.close_cards(*ask, *best.node);
  if (close.empty()) return {};
  placement.policy.choose(std::move(close));
  const auto found = solve_on(placement, *best.node, {});
  if (found && *found != nullptr) best.solution = **found;
  return {};
}

Result<std::optional<Best>> find(State::Impl& state, Placement& placement) {
  if (placement.request.policy == model::PlacementPolicy::kPacking) {
    HEDDLE_TRY(std::optional<Best> best, packed(state, placement));
    if (best) return best;
  }
  HEDDLE_TRY(std::optional<Best> best, best_of(placement));
  if (best && placement.request.policy != model::PlacementPolicy::kPacking) {
    HEDDLE_CHECK_OK(bring_together(state, placement, *best));
  }
  return best;
}

}  // namespace

int64_t free_millionths(const NodeEntry& node, const Assumption& assumption) {
  const allocator::BestFit policy;
  int64_t sum = 0;
  for (const allocator::PoolView& view : node.view.pools) {
    for (const DeviceInfo* device : view.devices) {
      const auto instead = std::find_if(assumption.instead.begin(), assumption.instead.end(),
                                        [&](const auto& entry) { return entry.first == device; });
      const allocator::Held& held = instead == assumption.instead.end() ? device->held : instead->second;
      if (held.whole > 0 || held.alone > 0) continue;
      allocator::Consumption nothing;
      nothing.amounts.resize(device->shape->capacities.size());
      const bool divisible = device->shape->shared && !device->shape->capacities.empty();
      sum += divisible ? policy.rank(*device, nothing, held.used) : 1'000'000;
    }
  }
  return sum;
}

int64_t free_millionths(const NodeEntry& node) {
  if (!node.free_known) node.free_millionths = free_millionths(node, {});
  node.free_known = true;
  return node.free_millionths;
}

std::optional<Assumption> Placement::seen_on(const NodeEntry& node, const Assumption& assumption) const {
  if (node.modules.dies == 0) return std::nullopt;
  const std::vector<const Alternative*> asked = filling(claims, node.modules.dies);
  if (asked.empty()) return std::nullopt;
  return whole_modules_only(node.modules, asked, assumption);
}

bool Placement::fits_in_parts(const NodeEntry& node, const Assumption& assumption) {
  if (!seen_on(node, assumption)) return false;
  if (!solver) solver.emplace(claims, policy, state.options);
  const auto found = solver->solve(node.view, assumption);
  return found.has_value() && *found != nullptr;
}

Result<bool> Placement::devices_fit(const NodeEntry& node, const Assumption& assumption) {
  HEDDLE_TRY(const allocator::Solution* solution, solve_on(*this, node, assumption));
  return solution != nullptr;
}

Result<std::optional<std::vector<model::Allocation>>> Placement::allocations_on(const NodeEntry& node,
                                                                                const Assumption& assumption,
                                                                                SeededRandom& random) {
  HEDDLE_TRY(const allocator::Solution* solution, solve_on(*this, node, assumption));
  if (solution == nullptr) return std::optional<std::vector<model::Allocation>>();
  std::vector<model::Allocation> allocations;
  for (size_t i = 0; i < claims.size(); ++i) {
    HEDDLE_TRY(model::Allocation allocation,
               allocator::make_allocation(claims[i], *solution, i, node.view.node, random, state.options));
    allocations.push_back(std::move(allocation));
  }
  return std::optional(std::move(allocations));
}

Result<RequestOutlook> outlook_of(const NodeEntry& node, Alternative& alternative, const allocator::Policy& policy,
                                  const Assumption& assumption) {
  RequestOutlook outlook;
  int64_t matching = 0;
  const allocator::Held free;
  for (const allocator::PoolView& view : node.view.pools) {
    if (view.pool->incomplete || !view.pool->invalid.empty()) continue;
    for (const DeviceInfo* device : view.devices) {
      if (!alternative.query->selects(*device)) continue;
      HEDDLE_TRY(const allocator::Consumption* take, alternative.consumption(*device->shape));
      if (!take->possible) continue;
      ++matching;
      if (!alternative.query->taints_allow(*device)) continue;
      const allocator::Held& held = assumption.all_free ? free : device->held;
      if (!allocator::fits(*device, alternative, *take, held)) continue;
      const int64_t rank = policy.rank(*device, *take, held.used);
      outlook.best_rank = outlook.fitting == 0 ? rank : std::min(outlook.best_rank, rank);
      ++outlook.fitting;
    }
  }
  outlook.enough = alternative.all ? matching > 0 && outlook.fitting == matching : outlook.fitting >= alternative.count;
  return outlook;
}

Result<Placement> make_placement(const State::Impl& state, const PlacementRequest& request) {
  HEDDLE_TRY(const std::vector<allocator::ClaimInput> inputs, claim_inputs(state, request));
  HEDDLE_TRY(auto claims, allocator::prepare(inputs, state.classes, state.cache, state.options));
  std::vector<const model::ClaimSpec*> specs;
  for (const ClaimRequest& claim : request.claims) specs.push_back(&claim.spec);
  std::optional<Newcomer> newcomer = newcomer_of(specs);
  if (newcomer && !tells_apart(*newcomer, state.ledger.crowd())) newcomer.reset();
  Placement placement{.state = state,
                      .request = request,
                      .claims = std::move(claims),
                      .needs = {},
                      .ports = {},
                      .policy = CardOrder(request.policy, newcomer)};
  if (request.pod != nullptr) {
    placement.needs = model::effective_requests(*request.pod);
    placement.ports = model::host_ports(*request.pod);
  }
  return placement;
}

void State::arrive(const PlacementRequest& request) {
  impl_->packing.arrivals().add(request);
}

Result<Outcome> State::place(const PlacementRequest& request, SeededRandom& random) const {
  HEDDLE_TRY(Placement placement, make_placement(*impl_, request));
  HEDDLE_TRY(std::optional<Best> best, find(*impl_, placement));
  if (!best && placement.reserve == Reserve::kKept && impl_->reserve.lends()) {
    placement.reserve = Reserve::kNeeded;
    HEDDLE_TRY(best, find(*impl_, placement));
  }
  if (!best) return explain(placement);
  Assigned assigned{.node = best->node->view.node, .allocations = {}};
  for (size_t i = 0; i < placement.claims.size(); ++i) {
    HEDDLE_TRY(model::Allocation allocation, allocator::make_allocation(placement.claims[i], best->solution, i,
                                                                        assigned.node, random, impl_->options));
    assigned.allocations.push_back(std::move(allocation));
  }
  return Outcome(std::move(assigned));
}

}  // namespace heddle::engine
