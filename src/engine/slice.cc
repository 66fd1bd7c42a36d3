#include "engine/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include "engine/boxes.h"
#include "engine/describe.h"
#include "engine/eviction.h"
#include "engine/gang_place.h"
#include "engine/state_impl.h"
#include "placement/cuboid.h"

namespace heddle::engine {
namespace {

using placement::Cuboid;
using placement::Extent;

constexpr std::string_view kPrefix = "slice-";

struct Host {
  std::string node;
  Extent at = {0, 0, 0};
};

struct NamedTorus {
  std::string name;
  Extent host = {1, 1, 1};
  placement::Torus torus;
  std::vector<Host> hosts;  // by position
  std::vector<bool> there;  // positions that have a host
  int64_t usable = 0;

  [[nodiscard]] const Host* find(const Extent& at) const {
    const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const Host& one) { return one.at == at; });
    return found == hosts.end() ? nullptr : &*found;
  }
};

std::vector<TopologyLevel> torus_levels() {
  return {
      {"torus", {"heddle.dev/torus"}, {"torus"}},
      {"torusShape", {"heddle.dev/torus-shape"}, {"torusShape"}},
      {"torusHost", {"heddle.dev/torus-host"}, {"torusHost"}},
      {"torusPosition", {"heddle.dev/torus-position"}, {"torusPosition"}},
      {"torusWraps", {"heddle.dev/torus-wraps"}, {"torusWraps"}},
  };
}

// "3-0-12"; fewer numbers: the other axes are 0.
std::optional<Extent> parse_position(std::string_view text) {
  Extent at = {0, 0, 0};
  const char* from = text.data();
  const char* const end = from + text.size();
  for (int& axis : at) {
    const auto [next, error] = std::from_chars(from, end, axis);
    if (error != std::errc() || axis < 0) return std::nullopt;
    if (next == end) return at;
    if (*next != '-') return std::nullopt;
    from = next + 1;
  }
  return std::nullopt;
}

class SliceSearch {
 public:
  SliceSearch(const State& state, const GangRequest& request) : state_(state), request_(request) {}

  Result<GangOutcome> run(SeededRandom& random) {
    HEDDLE_TRY(auto said, look({}, {}));
    if (said) return std::move(*said);
    return assign(random);
  }

  // Hosts of the slice that its members would take.
  Result<std::set<std::string>> hosts_without(const std::map<std::string, VictimHoldings>& victims,
                                              const std::vector<const queueing::Victim*>& gone) {
    HEDDLE_TRY(const auto said, look(victims, gone));
    if (said) return std::set<std::string>();
    const std::vector<std::string> open = open_hosts();
    return std::set<std::string>(open.begin(), open.end());
  }

 private:
  // Nothing: a slice was found.
  Result<std::optional<GangOutcome>> look(const std::map<std::string, VictimHoldings>& victims,
                                          const std::vector<const queueing::Victim*>& gone) {
    const std::string_view wanted = std::string_view(request_.required).substr(kPrefix.size());
    const auto chips = placement::parse_extent(wanted);
    if (!chips) return fail(Code::kInvalidArgument, chips.error().message, "required");
    chips_ = *chips;
    if (!request_.preferred.empty()) {
      return fail(Code::kInvalidArgument, "a slice is one shape: leave the preferred level out", "preferred");
    }
    HEDDLE_CHECK_OK(find_tori());
    if (tori_.empty()) {
      return no(true, "Topology", "no node says where in a torus it is: label the nodes with heddle.dev/torus");
    }
    note_fixed();
    HEDDLE_CHECK_OK(look_for_room(victims, gone));
    HEDDLE_TRY(auto said, choose());
    if (said || request_.boxes.empty()) return said;
    return keep_boxes();
  }

  // Nothing: the slice breaks no more boxes than it may. Where the one that was found does, one of hosts that break
  // none is looked for.
  Result<std::optional<GangOutcome>> keep_boxes() {
    HEDDLE_TRY(const BoxKeeper boxes, BoxKeeper::make(state_.inside(), request_.boxes));
    const BoxCounts opened(request_.boxes.size(), most_devices(request_.members.front().request));
    BoxCounts broken = boxes.none();
    for (const std::string& host : open_hosts()) {
      const BoxCounts here = boxes.broken(host, opened);
      for (size_t i = 0; i < broken.size(); ++i) broken[i] += here[i];
    }
    if (boxes.affordable(broken)) return std::optional<GangOutcome>();
    for (NamedTorus& torus : tori_) {
      for (const Host& host : torus.hosts) {
        if (fixed_.contains(host.node) || boxes.broken(host.node, opened) == boxes.none()) continue;
        torus.torus.usable[placement::index_of(torus.torus.size, host.at)] = false;
      }
    }
    torus_ = nullptr;
    cuboid_.reset();
    HEDDLE_TRY(const auto said, choose());
    if (!said) return std::optional<GangOutcome>();
    return std::optional(
        GangOutcome(Waiting{{{"Boxes", fmt::format("gang {} has room for its {} hosts, but that {}", request_.name,
                                                   hosts_, boxes.complaint(broken))}}}));
  }

  Result<void> find_tori() {
    HEDDLE_TRY(const Topology topology, Topology::make(state_, torus_levels(), {}));
    std::map<std::string, NamedTorus> by_name;
    for (size_t node = 0; node < topology.nodes().size(); ++node) {
      const auto said = [&](const char* level) { return topology.domain(topology.level_of(level), node); };
      const auto shape = placement::parse_extent(said("torusShape"));
      const auto host = placement::parse_extent(said("torusHost"));
      const auto at = parse_position(said("torusPosition"));
      if (said("torus").empty() || !shape || !host || !at) continue;
      NamedTorus& torus = by_name[said("torus")];
      const bool first = torus.name.empty();
      if (first) {
        torus.name = said("torus");
        torus.host = *host;
        torus.torus.wraps = said("torusWraps") == "true";
        bool whole = true;
        for (size_t axis = 0; axis < 3; ++axis) {
          whole = whole && (*shape)[axis] % (*host)[axis] == 0;
          torus.torus.size[axis] = (*shape)[axis] / (*host)[axis];
        }
        const int64_t hosts = placement::volume_of(torus.torus.size);
        if (!whole || hosts > placement::kMostHosts) torus.torus.size = {0, 0, 0};
        torus.there.assign(static_cast<size_t>(placement::volume_of(torus.torus.size)), false);
      }
      bool inside = true;
      for (size_t axis = 0; axis < 3; ++axis) inside = inside && (*at)[axis] < torus.torus.size[axis];
      // Two hosts at one place: the first by name counts, the other has none.
      if (!inside || torus.there[placement::index_of(torus.torus.size, *at)]) continue;
      torus.there[placement::index_of(torus.torus.size, *at)] = true;
      torus.hosts.push_back({topology.nodes()[node], *at});
    }
    for (auto& [name, torus] : by_name) {
      if (!torus.hosts.empty()) tori_.push_back(std::move(torus));
    }
    return {};
  }

  void note_fixed() {
    fixed_.insert(request_.fixed_nodes.begin(), request_.fixed_nodes.end());
    for (const GangMember& member : request_.members) {
      if (member.request.pinned_node) fixed_.insert(*member.request.pinned_node);
    }
  }

  // What members ask for, each once. Ranks follow the hosts, so a host has to take whichever member comes to it.
  [[nodiscard]] std::vector<PlacementRequest> different_asks() const {
    std::vector<PlacementRequest> asks;
    std::set<std::string> known;
    for (const GangMember& member : request_.members) {
      GangMember free = member;
      free.request.pinned_node.reset();
      if (known.insert(alike_key(free)).second) asks.push_back(std::move(free.request));
    }
    return asks;
  }

  // Hosts where every member has room, or one is already.
  Result<void> look_for_room(const std::map<std::string, VictimHoldings>& victims,
                             const std::vector<const queueing::Victim*>& gone) {
    const std::vector<PlacementRequest> asks = different_asks();  // the rooms borrow them
    std::vector<std::unique_ptr<RoomWithout>> rooms;
    for (const PlacementRequest& asked : asks) {
      HEDDLE_TRY(auto room, RoomWithout::make(state_, asked, victims));
      rooms.push_back(std::move(room));
    }
    for (NamedTorus& torus : tori_) {
      torus.torus.usable.assign(torus.there.size(), false);
      for (const Host& host : torus.hosts) {
        const auto takes = [&](const auto& room) { return room->fits(host.node, gone); };
        if (!fixed_.contains(host.node) && !std::all_of(rooms.begin(), rooms.end(), takes)) continue;
        torus.torus.usable[placement::index_of(torus.torus.size, host.at)] = true;
        ++torus.usable;
      }
    }
    return {};
  }

  Result<std::optional<GangOutcome>> choose() {
    const NamedTorus*& best = torus_;
    std::optional<Cuboid>& chosen = cuboid_;
    bool divides = false;
    bool possible = false;
    for (const NamedTorus& torus : tori_) {
      const auto sizes = placement::orientations(chips_, torus.host);
      if (sizes.empty()) continue;
      divides = true;
      hosts_ = placement::volume_of(sizes.front());
      if (hosts_ != here()) continue;
      placement::Torus whole = torus.torus;
      whole.usable = torus.there;
      HEDDLE_TRY(const auto ever, placement::choose_cuboid(whole, {sizes}, {}));
      possible = possible || ever.has_value();
      if (!ever || (best != nullptr && best->usable <= torus.usable)) continue;
      std::vector<Extent> must_hold;
      for (const Host& host : torus.hosts) {
        if (fixed_.contains(host.node)) must_hold.push_back(host.at);
      }
      if (must_hold.size() != fixed_.size()) continue;  // the others are elsewhere
      HEDDLE_TRY(const auto found, placement::choose_cuboid(torus.torus, sizes, must_hold));
      if (!found) continue;
      best = &torus;
      chosen = found;
    }
    if (best != nullptr) return std::optional<GangOutcome>();
    HEDDLE_TRY(GangOutcome said, refuse(divides, possible));
    return std::optional(std::move(said));
  }

  // Members that there are, placed ones too.
  [[nodiscard]] int64_t here() const {
    return static_cast<int64_t>(request_.members.size() + request_.fixed_nodes.size());
  }

  Result<GangOutcome> refuse(bool divides, bool possible) {
    const std::string name = request_.required.substr(kPrefix.size());
    if (!divides) {
      return no(
          true, "Slice",
          fmt::format("{} is not made of whole hosts of {} chips", name, placement::extent_text(tori_.front().host)));
    }
    if (hosts_ != here()) {
      return no(true, "Slice",
                fmt::format("{} has {} hosts and the gang {} members: write heddle.dev/gang-size: \"{}\"", name, hosts_,
                            here(), hosts_));
    }
    if (!possible) return no(true, "Slice", fmt::format("no torus here has {} chips in one piece", name));
    HEDDLE_TRY(const std::string closed, closed_hosts());
    if (!closed.empty()) {
      return no(false, "NodeFit",
                fmt::format("gang {} needs a free cuboid of {} chips ({} hosts): it would fit if closed nodes were "
                            "open: {}",
                            request_.name, name, hosts_, closed));
    }
    int64_t most = -1;
    std::string where;
    for (const NamedTorus& torus : tori_) {
      HEDDLE_TRY(const auto largest, placement::largest_free_cuboid(torus.torus));
      const int64_t volume = largest ? placement::volume_of(largest->size) : 0;
      if (volume <= most) continue;
      most = volume;
      Extent chips = {0, 0, 0};
      for (size_t axis = 0; largest && axis < 3; ++axis) chips[axis] = largest->size[axis] * torus.host[axis];
      where = fmt::format("the largest free one is {}, in torus {}, where {} of {} hosts are free",
                          placement::extent_text(chips), torus.name, torus.usable, torus.hosts.size());
    }
    return no(
        false, "Capacity",
        fmt::format("gang {} needs a free cuboid of {} chips ({} hosts): {}", request_.name, name, hosts_, where));
  }

  // Which closed hosts would make a slice whole, in words; empty: none would. The tori are as they were before.
  Result<std::string> closed_hosts() {
    if (opened_) return std::string();
    std::vector<std::unique_ptr<GangGroup>> asks;
    for (PlacementRequest& asked : different_asks()) {
      HEDDLE_TRY(auto group, GangGroup::make(state_.inside(), std::move(asked)));
      asks.push_back(std::move(group));
    }
    std::map<std::string, Bar> closed;
    const std::vector<NamedTorus> before = tori_;
    for (NamedTorus& torus : tori_) {
      for (const Host& host : torus.hosts) {
        HEDDLE_TRY(const Bar bar, door_of(host.node, asks));
        if (!is_closed(bar)) continue;
        closed.emplace(host.node, bar);
        torus.torus.usable[placement::index_of(torus.torus.size, host.at)] = true;
      }
    }
    if (closed.empty()) return std::string();
    opened_ = true;
    HEDDLE_TRY(const auto said, choose());
    std::map<Bar, std::vector<std::string>> names;
    if (!said) {
      for (const std::string& host : open_hosts()) {
        if (const auto found = closed.find(host); found != closed.end()) names[found->second].push_back(host);
      }
    }
    torus_ = nullptr;
    cuboid_.reset();
    tori_ = before;
    return describe_bars(names);
  }

  // What closes a host that would take any member; kNone where nothing does, or where there is no room all the same.
  Result<Bar> door_of(const std::string& host, const std::vector<std::unique_ptr<GangGroup>>& asks) {
    const NodeEntry& node = state_.inside().inventory.nodes().at(host);
    Bar bar = Bar::kNone;
    for (const auto& ask : asks) {
      const Bar here = ask->placement().bar_of(node);
      if (here != Bar::kNone && !is_closed(here)) return Bar::kNone;
      if (here != Bar::kNone) bar = here;
      Overlay overlay;
      HEDDLE_TRY(const auto taken, ask->take(node, overlay, 1, Leave::kNothing));
      if (taken.empty()) return Bar::kNone;
    }
    return bar;
  }

  static Result<GangOutcome> no(bool never, const char* code, std::string message) {
    if (never) return GangOutcome(Infeasible{{{code, std::move(message)}}});
    return GangOutcome(Waiting{{{code, std::move(message)}}});
  }

  [[nodiscard]] std::vector<std::string> open_hosts() const {
    std::vector<std::string> open;
    for (const Extent& at : placement::hosts_of(torus_->torus, *cuboid_)) {
      const Host* host = torus_->find(at);
      if (host != nullptr && !fixed_.contains(host->node)) open.push_back(host->node);
    }
    return open;
  }

  Result<GangOutcome> assign(SeededRandom& random) {
    const std::vector<std::string> open = open_hosts();
    const Extent& origin = cuboid_->origin;
    GangAssigned out;
    out.level = request_.required;
    out.domain = fmt::format("{} at {}-{}-{}", torus_->name, origin[0], origin[1], origin[2]);
    size_t next = 0;
    for (const GangMember& member : request_.members) {
      PlacementRequest asked = member.request;
      if (!asked.pinned_node) {
        if (next == open.size()) return fail(Code::kInternal, "a slice has fewer hosts than members");
        asked.pinned_node = open[next++];
      }
      HEDDLE_TRY(Outcome outcome, state_.place(asked, random));
      if (auto* assigned = std::get_if<Assigned>(&outcome)) {
        out.members.emplace_back(std::move(*assigned));
        continue;
      }
      const auto* waits = std::get_if<Waiting>(&outcome);
      return GangOutcome(Waiting{waits != nullptr ? waits->reasons : std::get<Infeasible>(outcome).reasons});
    }
    return GangOutcome(std::move(out));
  }

  const State& state_;
  const GangRequest& request_;
  Extent chips_ = {1, 1, 1};
  int64_t hosts_ = 0;  // of the slice
  std::vector<NamedTorus> tori_;
  std::set<std::string> fixed_;
  const NamedTorus* torus_ = nullptr;  // of the slice that was found
  std::optional<Cuboid> cuboid_;
  bool opened_ = false;  // closed hosts count as usable
};

}  // namespace

bool is_slice(std::string_view level) {
  return level.starts_with(kPrefix);
}

Result<GangOutcome> place_slice(const State& state, const GangRequest& request, SeededRandom& random) {
  return SliceSearch(state, request).run(random);
}

Result<std::set<std::string>> slice_without(const State& state, const GangRequest& request,
                                            const std::map<std::string, VictimHoldings>& victims,
                                            const std::vector<const queueing::Victim*>& gone) {
  return SliceSearch(state, request).hosts_without(victims, gone);
}

}  // namespace heddle::engine
