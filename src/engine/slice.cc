#include "engine/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <set>

#include "engine/boxes.h"
#include "engine/describe.h"
#include "engine/eviction.h"
#include "engine/gang_place.h"
#include "engine/state_impl.h"
#include "engine/tori.h"
#include "placement/cuboid.h"

namespace heddle::engine {
namespace {

using placement::Cuboid;
using placement::Extent;

constexpr std::string_view kPrefix = "slice-";
constexpr size_t kMostTried = 64;  // places of a slice, so that boxes are kept

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
    const auto chips = slice_shape(request_.required);
    if (!chips) return fail(Code::kInvalidArgument, chips.error().message, "required");
    chips_ = *chips;
    if (!request_.preferred.empty()) {
      return fail(Code::kInvalidArgument, "a slice is one shape: leave the preferred level out", "preferred");
    }
    HEDDLE_TRY(tori_, find_tori(state_));
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
  // none is looked for, then any that does not break too many.
  Result<std::optional<GangOutcome>> keep_boxes() {
    HEDDLE_TRY(const BoxKeeper boxes, BoxKeeper::make(state_.inside(), request_.boxes));
    const BoxCounts opened(request_.boxes.size(), most_devices(request_.members.front().request));
    const auto broken_by_all = [&] {
      std::map<std::string, BoxCounts> by_host;
      for (const std::string& host : open_hosts()) by_host[host] = opened;
      return boxes.broken_by(by_host);
    };
    const BoxCounts broken = broken_by_all();
    if (boxes.affordable(broken)) return std::optional<GangOutcome>();
    const std::vector<NamedTorus> with_room = tori_;
    for (NamedTorus& torus : tori_) {
      for (const TorusHost& host : torus.hosts) {
        if (fixed_.contains(host.node) || boxes.broken(host.node, opened) == boxes.none()) continue;
        torus.torus.usable[placement::index_of(torus.torus.size, host.at)] = false;
      }
    }
    torus_ = nullptr;
    cuboid_.reset();
    HEDDLE_TRY(const auto said, choose());
    if (!said && boxes.affordable(broken_by_all())) return std::optional<GangOutcome>();
    tori_ = with_room;
    for (const NamedTorus& torus : tori_) {
      const auto must_hold = places_of_fixed(torus);
      const auto sizes = placement::orientations(chips_, torus.host);
      if (!must_hold || sizes.empty() || placement::volume_of(sizes.front()) != here()) continue;
      HEDDLE_TRY(const auto possible, placement::free_cuboids(torus.torus, sizes, *must_hold, kMostTried));
      torus_ = &torus;
      for (const Cuboid& cuboid : possible) {
        cuboid_ = cuboid;
        if (boxes.affordable(broken_by_all())) return std::optional<GangOutcome>();
      }
    }
    return std::optional(
        GangOutcome(Waiting{{{"Boxes", fmt::format("gang {} has room for its {} hosts, but that {}", request_.name,
                                                   hosts_, boxes.complaint(broken))}}}));
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
      for (const TorusHost& host : torus.hosts) {
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
    const int64_t asked = least_of_a_member();
    for (const NamedTorus& torus : tori_) {
      const auto sizes = placement::orientations(chips_, torus.host);
      if (sizes.empty()) continue;
      divides = true;
      if (asked < placement::volume_of(torus.host)) {
        part_of_ = torus.host;
        continue;
      }
      hosts_ = placement::volume_of(sizes.front());
      if (hosts_ != here()) continue;
      placement::Torus whole = torus.torus;
      whole.usable = torus.there;
      HEDDLE_TRY(const auto ever, placement::choose_cuboid(whole, {sizes}, {}));
      possible = possible || ever.has_value();
      if (!ever || (best != nullptr && best->usable <= torus.usable)) continue;
      const auto must_hold = places_of_fixed(torus);
      if (!must_hold) continue;
      HEDDLE_TRY(const auto found, placement::choose_cuboid(torus.torus, sizes, *must_hold));
      if (!found) continue;
      best = &torus;
      chosen = found;
    }
    if (best != nullptr) return std::optional<GangOutcome>();
    HEDDLE_TRY(GangOutcome said, refuse(divides, possible));
    return std::optional(std::move(said));
  }

  // Nothing: some of those that are placed already are elsewhere.
  [[nodiscard]] std::optional<std::vector<Extent>> places_of_fixed(const NamedTorus& torus) const {
    std::vector<Extent> places;
    for (const TorusHost& host : torus.hosts) {
      if (fixed_.contains(host.node)) places.push_back(host.at);
    }
    if (places.size() != fixed_.size()) return std::nullopt;
    return places;
  }

  // Chips that each member asks for, at least. The hosts of a slice are its own: nobody else gets a part of one.
  [[nodiscard]] int64_t least_of_a_member() const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const GangMember& member : request_.members) least = std::min(least, most_devices(member.request));
    return least;
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
    if (hosts_ == 0 && part_of_) {
      return no(true, "Slice",
                fmt::format("a host of a slice is {} chips, all of them its own, and a member of gang {} asks for {}: "
                            "ask for {} in each",
                            placement::extent_text(*part_of_), request_.name, least_of_a_member(),
                            placement::volume_of(*part_of_)));
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
      for (const TorusHost& host : torus.hosts) {
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
      const TorusHost* host = torus_->find(at);
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
  bool opened_ = false;            // closed hosts count as usable
  std::optional<Extent> part_of_;  // a host of which the members ask for a part
};

}  // namespace

bool is_slice(std::string_view level) {
  return level.starts_with(kPrefix);
}

Result<Extent> slice_shape(std::string_view level) {
  return placement::parse_extent(is_slice(level) ? level.substr(kPrefix.size()) : level);
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
