// Why a request cannot be placed now: what is short, where, by how much, and what would make it fit.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/describe.h"
#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

using allocator::Alternative;
using allocator::Assumption;
using allocator::DeviceInfo;

constexpr size_t kMaxTrials = 96;  // of "would it fit if this ended", per explanation

// What stands between the pod and one node.
struct Verdict {
  const NodeEntry* node = nullptr;
  Bar bar = Bar::kNone;
  std::optional<Shortage> shortage;  // now
  std::optional<Shortage> never;     // even without other pods
  std::optional<model::HostPort> port;
  bool devices_now = false;
  bool devices_ever = false;  // with all devices free

  [[nodiscard]] bool possible() const { return !is_final(bar) && !never && devices_ever; }
};

class Explainer {
 public:
  explicit Explainer(Placement& placement) : placement_(placement) {}

  Result<Outcome> run() {
    for (const auto& [name, node] : placement_.state.inventory.nodes()) {
      Verdict verdict{.node = &node, .bar = placement_.bar_of(node), .shortage = {}, .never = {}, .port = {}};
      verdict.shortage = placement_.shortage_of(node, false);
      verdict.never = placement_.shortage_of(node, true);
      verdict.port = placement_.port_conflict_on(node);
      HEDDLE_TRY(verdict.devices_ever, placement_.devices_fit(node, {.all_free = true, .instead = {}}));
      if (verdict.devices_ever) {
        HEDDLE_TRY(verdict.devices_now, placement_.devices_fit(node, {}));
      }
      verdicts_.push_back(verdict);
    }
    const bool possible =
        std::any_of(verdicts_.begin(), verdicts_.end(), [](const Verdict& v) { return v.possible(); });
    if (!possible) return infeasible();
    HEDDLE_CHECK_OK(add_capacity());
    add_node_shortages();
    add_port_conflicts();
    const bool is_short = !reasons_.empty();
    add_bars();
    return Outcome(Waiting{std::move(reasons_), is_short ? need() : std::nullopt});
  }

 private:
  void add(std::string code, std::string message) { reasons_.push_back({std::move(code), std::move(message)}); }

  // --- waiting ---

  // Open nodes whose devices are taken.
  Result<void> add_capacity() {
    std::vector<const NodeEntry*> full;
    for (const Verdict& verdict : verdicts_) {
      if (verdict.possible() && verdict.bar == Bar::kNone && !verdict.devices_now) full.push_back(verdict.node);
    }
    if (full.empty()) return {};
    HEDDLE_TRY(std::string message, shortage_message(full));
    if (placement_.request.name_holders) {
      HEDDLE_TRY(const std::string remedy, remedy_on(full));
      message += remedy;
    }
    add("Capacity", std::move(message));
    return {};
  }

  // The first request that no node can serve by itself; else the requests only fail together.
  Result<std::string> shortage_message(const std::vector<const NodeEntry*>& nodes) {
    for (allocator::PreparedClaim& claim : placement_.claims) {
      for (allocator::PreparedRequest& request : claim.requests) {
        HEDDLE_TRY(const bool served, served_somewhere(request, nodes));
        if (!served) return request_shortage(request.alternatives.front(), nodes);
      }
    }
    const std::string broken = broken_modules(nodes, {});
    if (!broken.empty()) return broken;
    return fmt::format("each request fits alone, but no node has devices free for all of them together: {}",
                       list_requests(placement_.claims));
  }

  // Of requests that a node could serve if it were not for whole modules; empty: that is not why.
  std::string broken_modules(const std::vector<const NodeEntry*>& nodes, const Assumption& assumption) {
    for (const NodeEntry* node : nodes) {
      if (!placement_.fits_in_parts(*node, assumption)) continue;
      return fmt::format("no node has whole modules for {}; {} has enough only with modules of which a part is {}",
                         list_requests(placement_.claims), node->view.node,
                         assumption.all_free ? "out of order" : "in use");
    }
    return std::string();
  }

  Result<bool> served_somewhere(allocator::PreparedRequest& request, const std::vector<const NodeEntry*>& nodes) {
    for (const NodeEntry* node : nodes) {
      for (Alternative& alternative : request.alternatives) {
        HEDDLE_TRY(const RequestOutlook outlook, outlook_of(*node, alternative, placement_.policy, {}));
        if (outlook.enough) return true;
      }
    }
    return false;
  }

  Result<std::string> request_shortage(Alternative& alternative, const std::vector<const NodeEntry*>& nodes) {
    const NodeEntry* most_node = nullptr;
    int64_t most_fitting = -1;
    const DeviceInfo* freest = nullptr;
    int64_t freest_rank = -1;
    const NodeEntry* freest_node = nullptr;
    for (const NodeEntry* node : nodes) {
      HEDDLE_TRY(const RequestOutlook outlook, outlook_of(*node, alternative, placement_.policy, {}));
      if (outlook.fitting > most_fitting) {
        most_fitting = outlook.fitting;
        most_node = node;
      }
      for (const allocator::PoolView& view : node->view.pools) {
        for (const DeviceInfo* device : view.devices) {
          if (!alternative.query->matches(*device)) continue;
          const int64_t rank = free_rank(*device);
          if (rank <= freest_rank) continue;
          freest_rank = rank;
          freest = device;
          freest_node = node;
        }
      }
    }
    const std::string ask = describe_ask(alternative);
    if (alternative.all) {
      return fmt::format("all devices of {} on one node are asked for, and no node has all of them free",
                         alternative.spec->device_class);
    }
    if (alternative.count > 1) {
      return fmt::format("no node has {} {} free; {} has the most: {}", alternative.count, describe_asks(alternative),
                         most_node->view.node, std::max<int64_t>(most_fitting, 0));
    }
    if (freest == nullptr) return fmt::format("no {} free", ask);
    return fmt::format("no {} free; the most free is {} of {}: {}", ask, freest->name(), freest_node->view.node,
                       describe_free(*freest, placement_.state.ledger));
  }

  // Which running work would have to end.
  Result<std::string> remedy_on(const std::vector<const NodeEntry*>& nodes) {
    std::vector<const NodeEntry*> open;
    for (const Verdict& verdict : verdicts_) {
      const bool listed = std::find(nodes.begin(), nodes.end(), verdict.node) != nodes.end();
      if (listed && !verdict.shortage) open.push_back(verdict.node);
    }
    if (open.empty()) return std::string("; that node is also short of other resources, see below");
    size_t trials = 0;
    for (const NodeEntry* node : open) {
      for (const Grant* grant : grants_on(*node)) {
        if (++trials > kMaxTrials) return std::string();
        HEDDLE_TRY(const bool fits, fits_without(*node, {grant}));
        if (fits) return fmt::format("; fits when {} ends", grant->holder);
      }
    }
    for (const NodeEntry* node : open) {
      std::vector<const Grant*> ended;
      for (const Grant* grant : grants_on(*node)) {
        if (++trials > 2 * kMaxTrials) return std::string();
        ended.push_back(grant);
        HEDDLE_TRY(const bool fits, fits_without(*node, ended));
        if (fits) return fmt::format("; fits when {} end", list_holders(ended));
      }
    }
    return std::string();
  }

  // The grants that hold devices which some request may take, the oldest last: what has run longest ends first, but to
  // free the least is to name the smallest; the order is by uid, which is stable.
  std::vector<const Grant*> grants_on(const NodeEntry& node) const {
    std::vector<const Grant*> grants;
    for (const allocator::PoolView& view : node.view.pools) {
      for (const DeviceInfo* device : view.devices) {
        if (!wanted(*device)) continue;
        const auto* holdings = placement_.state.ledger.find(key_of_device(*device));
        if (holdings == nullptr) continue;
        for (const Holding& holding : *holdings) {
          if (holding.grant->kept) continue;
          if (std::find(grants.begin(), grants.end(), holding.grant) == grants.end()) grants.push_back(holding.grant);
        }
      }
    }
    return grants;
  }

  bool wanted(const DeviceInfo& device) const {
    for (const allocator::PreparedClaim& claim : placement_.claims) {
      for (const allocator::PreparedRequest& request : claim.requests) {
        for (const Alternative& alternative : request.alternatives) {
          if (alternative.query->matches(device)) return true;
        }
      }
    }
    return false;
  }

  Result<bool> fits_without(const NodeEntry& node, const std::vector<const Grant*>& ended) {
    Assumption assumption;
    for (const allocator::PoolView& view : node.view.pools) {
      for (const DeviceInfo* device : view.devices) {
        const auto* holdings = placement_.state.ledger.find(key_of_device(*device));
        if (holdings == nullptr) continue;
        const bool touched = std::any_of(holdings->begin(), holdings->end(), [&](const Holding& holding) {
          return std::find(ended.begin(), ended.end(), holding.grant) != ended.end();
        });
        if (touched) assumption.instead.emplace_back(device, held_by(*holdings, *device->shape, ended));
      }
    }
    return placement_.devices_fit(node, assumption);
  }

  // Open nodes with free devices that are short of cpu, memory, pods ...: the one that lacks the least is named.
  void add_node_shortages() {
    const Verdict* closest = nullptr;
    size_t others = 0;
    for (const Verdict& verdict : verdicts_) {
      if (!verdict.possible() || verdict.bar != Bar::kNone || !verdict.shortage) continue;
      if (!verdict.devices_now && !reasons_.empty() && closest != nullptr) continue;
      ++others;
      const auto missing = [](const Verdict& v) { return v.shortage->needed - v.shortage->free; };
      if (closest == nullptr || (verdict.devices_now && !closest->devices_now) ||
          (verdict.shortage->resource == closest->shortage->resource && missing(verdict) < missing(*closest))) {
        closest = &verdict;
      }
    }
    if (closest == nullptr) return;
    add("NodeFit",
        fmt::format("{}{} is short of {}{}", closest->node->view.node,
                    closest->devices_now ? " has the devices free, but" : "", describe_shortage(*closest->shortage),
                    others > 1 ? fmt::format("; {} more nodes are short too", others - 1) : ""));
  }

  // Open nodes where only a port is taken.
  void add_port_conflicts() {
    std::vector<std::string> names;
    std::optional<model::HostPort> port;
    for (const Verdict& verdict : verdicts_) {
      if (!verdict.possible() || verdict.bar != Bar::kNone || !verdict.port || verdict.shortage) continue;
      if (!verdict.devices_now && !reasons_.empty()) continue;
      if (!port) port = verdict.port;
      names.push_back(verdict.node->view.node);
    }
    if (names.empty()) return;
    add("NodeFit",
        fmt::format("host port {}/{} is taken on {}; fits when the pod that has it ends, or without hostPort",
                    port->port, port->protocol.empty() ? "TCP" : port->protocol, list_names(names)));
  }

  // Nodes that would do, but are closed to this pod for now. They are named only where opening them would help, or
  // where nothing else explains the waiting.
  void add_bars() {
    add_bar(Bar::kExcluded, "Excluded");
    add_bar(Bar::kHeld, "Held");
    add_bar(Bar::kKeptWhole, "Boxes");
    add_bar(Bar::kReserved, "Reserve");
    for (const Bar bar : {Bar::kCordoned, Bar::kNotReady, Bar::kTaint}) add_bar(bar, "NodeFit");
  }

  void add_bar(Bar bar, const char* code) {
    std::vector<std::string> names;
    for (const Verdict& verdict : verdicts_) {
      if (!verdict.possible() || verdict.bar != bar) continue;
      if ((verdict.devices_now && !verdict.shortage && !verdict.port) || reasons_.empty())
        names.push_back(verdict.node->view.node);
    }
    if (!names.empty()) add(code, describe_bar(bar, names));
  }

  // The node with the fewest devices that would take it if it were there once more, and empty; an open one before a
  // closed one. Nothing for a pod that is tied to nodes by their names.
  [[nodiscard]] std::optional<NodeNeed> need() const {
    if (placement_.request.pod == nullptr) return std::nullopt;  // of one machine
    const model::Pod& pod = *placement_.request.pod;
    const bool tied = placement_.request.pinned_node || pod.node_selector.contains("kubernetes.io/hostname") ||
                      (pod.required_node_affinity &&
                       std::any_of(pod.required_node_affinity->terms.begin(), pod.required_node_affinity->terms.end(),
                                   [](const auto& term) { return !term.match_fields.empty(); }));
    if (tied) return std::nullopt;
    const NodeEntry* smallest = nullptr;
    size_t fewest = 0;
    bool closed = false;
    for (const Verdict& verdict : verdicts_) {
      if (!verdict.possible() || verdict.bar == Bar::kTaint) continue;
      size_t devices = 0;
      for (const allocator::PoolView& view : verdict.node->view.pools) devices += view.devices.size();
      const bool opener = closed && !is_closed(verdict.bar);
      if (smallest != nullptr && (devices > fewest || (devices == fewest && !opener))) continue;
      smallest = verdict.node;
      fewest = devices;
      closed = is_closed(verdict.bar);
    }
    if (smallest == nullptr) return std::nullopt;
    return NodeNeed{smallest->view.node, 1};
  }

  // --- infeasible ---

  Result<Outcome> infeasible() {
    const auto& nodes = placement_.state.inventory.nodes();
    if (nodes.empty()) {
      add("NodeFit", "the fleet has no node");
      return Outcome(Infeasible{std::move(reasons_)});
    }
    HEDDLE_TRY(const bool waits_for_owner, explain_devices());
    if (waits_for_owner) return Outcome(Waiting{std::move(reasons_)});
    if (reasons_.empty()) explain_nodes();
    return Outcome(Infeasible{std::move(reasons_)});
  }

  // Reasons that lie in the devices of the fleet; true when the devices exist but another owner has them for now.
  Result<bool> explain_devices() {
    const bool some_node =
        std::any_of(verdicts_.begin(), verdicts_.end(), [](const Verdict& v) { return v.devices_ever; });
    if (some_node) return false;
    for (allocator::PreparedClaim& claim : placement_.claims) {
      for (allocator::PreparedRequest& request : claim.requests) {
        HEDDLE_TRY(const bool servable, servable_when_free(request));
        if (servable) continue;
        HEDDLE_TRY(const FleetLook look, look_at_fleet(request.alternatives.front()));
        add(look.code, look.message);
        return look.tainted;
      }
    }
    std::vector<const NodeEntry*> nodes;
    for (const Verdict& verdict : verdicts_) nodes.push_back(verdict.node);
    std::string broken = broken_modules(nodes, {.all_free = true, .instead = {}});
    if (!broken.empty()) {
      add("Capacity", std::move(broken));
      return true;
    }
    add("Capacity", fmt::format("each request fits alone, but no node has enough devices for all of them together: {}",
                                list_requests(placement_.claims)));
    return false;
  }

  Result<bool> servable_when_free(allocator::PreparedRequest& request) {
    for (const Verdict& verdict : verdicts_) {
      for (Alternative& alternative : request.alternatives) {
        HEDDLE_TRY(const RequestOutlook outlook,
                   outlook_of(*verdict.node, alternative, placement_.policy, {.all_free = true, .instead = {}}));
        if (outlook.enough) return true;
      }
    }
    return false;
  }

  struct FleetLook {
    std::string code;
    std::string message;
    bool tainted = false;
  };

  Result<FleetLook> look_at_fleet(Alternative& alternative) {
    const DeviceInfo* largest = nullptr;
    std::string largest_node;
    const DeviceInfo* tainted = nullptr;
    std::string tainted_node;
    std::string not_ready;
    int64_t most = 0;
    std::string most_node;
    for (const Verdict& verdict : verdicts_) {
      int64_t here = 0;
      for (const allocator::PoolView& view : verdict.node->view.pools) {
        if (view.pool->incomplete) not_ready = fmt::format("pool {} is being updated", view.pool->name);
        if (!view.pool->invalid.empty())
          not_ready = fmt::format("pool {} is invalid: {}", view.pool->name, view.pool->invalid);
        for (const DeviceInfo* device : view.devices) {
          if (!alternative.query->selects(*device)) continue;
          HEDDLE_TRY(const allocator::Consumption* take, alternative.consumption(*device->shape));
          if (!alternative.query->matches(*device)) {
            if (tainted == nullptr && take->possible) tainted_node = verdict.node->view.node;
            if (tainted == nullptr && take->possible) tainted = device;
            continue;
          }
          if (take->possible) ++here;
          if (largest == nullptr || larger(*device, *largest)) {
            largest = device;
            largest_node = verdict.node->view.node;
          }
        }
      }
      if (here > most) most_node = verdict.node->view.node;
      most = std::max(most, here);
    }
    const std::string ask = describe_ask(alternative);
    if (tainted != nullptr && most < alternative.count) {
      return FleetLook{"Taint", describe_taint(*tainted, tainted_node, alternative), true};
    }
    if (!not_ready.empty()) return FleetLook{"Capacity", not_ready, true};
    if (largest == nullptr) {
      return FleetLook{
          "Selector",
          fmt::format(
              "no device of the fleet matches class {}{}{}{}", alternative.spec->device_class,
              alternative.spec->selectors.empty() ? "" : " and the selectors of the request",
              alternative.needs.empty() ? "" : " and what its ShareConfig needs: " + alternative.needs,
              alternative.query->trouble().empty() ? "" : "; a selector failed on " + alternative.query->trouble()),
          false};
    }
    if (most > 0) {
      return FleetLook{"Capacity",
                       fmt::format("{} {} on one node are asked for; the largest node, {}, has {}", alternative.count,
                                   describe_asks(alternative), most_node, most),
                       false};
    }
    return FleetLook{"Capacity",
                     fmt::format("no {} in this fleet; the largest is {} of {}: {}", ask, largest->name(), largest_node,
                                 describe_size(*largest)),
                     false};
  }

  // The devices exist; the nodes that have them do not suit the pod.
  void explain_nodes() {
    const Verdict* closest = nullptr;
    std::vector<std::string> unmatched;
    std::vector<std::string> unreachable;
    for (const Verdict& verdict : verdicts_) {
      if (!verdict.devices_ever) continue;
      if (verdict.bar == Bar::kPinned) continue;
      if (verdict.bar == Bar::kSelector) unmatched.push_back(verdict.node->view.node);
      if (verdict.bar == Bar::kVolume) unreachable.push_back(verdict.node->view.node);
      if (is_final(verdict.bar) || !verdict.never) continue;
      if (closest == nullptr || verdict.never->allocatable > closest->never->allocatable) closest = &verdict;
    }
    if (closest != nullptr) {
      add("NodeFit", fmt::format("no node with such devices has enough {}: {}", closest->never->resource,
                                 describe_never(*closest->never, closest->node->view.node)));
    }
    if (!unmatched.empty()) {
      add("NodeFit", fmt::format("the pod's nodeSelector or required node affinity excludes {}, which {} such devices",
                                 list_names(unmatched), unmatched.size() == 1 ? "has" : "have"));
    }
    if (!unreachable.empty()) {
      const std::vector<model::VolumeReach>& volumes = placement_.request.volumes;
      const auto& node = placement_.state.inventory.nodes().at(unreachable.front()).node;
      const auto volume = std::find_if(volumes.begin(), volumes.end(),
                                       [&](const model::VolumeReach& v) { return !model::reachable(v, node); });
      add("NodeFit", fmt::format("volume {} of claim {} cannot be reached from {}", volume->volume, volume->claim,
                                 list_names(unreachable)));
    }
    if (reasons_.empty()) {
      add("NodeFit", fmt::format("the pod is tied to node {}, which cannot serve it",
                                 placement_.request.pinned_node.value_or("?")));
    }
  }

  Placement& placement_;
  std::vector<Verdict> verdicts_;
  std::vector<Reason> reasons_;
};

}  // namespace

Reason needs_node(const NodeNeed& need) {
  const std::string where = need.where.empty() ? std::string() : " in " + need.where;
  return {"NeedsNode", need.count == 1
                           ? fmt::format("an empty node like {}{} would take it", need.like, where)
                           : fmt::format("{} more nodes like {}{} would take it", need.count, need.like, where)};
}

Result<Outcome> explain(Placement& placement) {
  return Explainer(placement).run();
}

}  // namespace heddle::engine
