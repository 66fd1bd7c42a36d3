#include "engine/packing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

using allocator::DeviceInfo;
using placement::kWholeCard;
using placement::NodeId;

constexpr uint32_t kNoNumber = UINT32_MAX;
constexpr int64_t kPlentyCpu = int64_t{1} << 32;  // of a node that does not say
constexpr int64_t kPlentyMemory = int64_t{1} << 46;
constexpr int64_t kObserveEvery = 32;  // arrivals
constexpr size_t kMaxClasses = 512;    // of a mix
constexpr size_t kMaxRequests = 4096;  // that are remembered
constexpr size_t kMaxSignatures = 256;
constexpr size_t kSpareNumbers = 64;
constexpr int64_t kMillionthsInMilli = 1000;

int64_t free_of(const NodeEntry& entry, const char* resource, int64_t plenty) {
  if (entry.allocatable.empty()) return plenty;
  const auto total = entry.allocatable.find(resource);
  const auto used = entry.used.find(resource);
  const int64_t free =
      (total == entry.allocatable.end() ? 0 : total->second) - (used == entry.used.end() ? 0 : used->second);
  return std::clamp<int64_t>(free, 0, plenty);
}

}  // namespace

Packing::Packing() : placer_(std::make_unique<placement::Placer>(placement::PlacerOptions{})) {}

Result<Packing::Service> Packing::service_of(allocator::PreparedRequest& request, const NodeCards& sample) {
  for (allocator::Alternative& alternative : request.alternatives) {
    if (alternative.all || alternative.spec->admin_access) return Service{Service::Is::kInexpressible};
    size_t matching = 0;
    int milli = 0;
    for (const Card& card : sample.cards) {
      if (!alternative.query->selects(*card.device)) continue;
      HEDDLE_TRY(const allocator::Consumption* take, alternative.consumption(*card.device->shape));
      if (!take->possible) continue;
      ++matching;
      milli = milli_of(*card.device->shape, *take);
    }
    if (matching == 0) continue;
    if (matching < sample.cards.size()) return Service{Service::Is::kInexpressible};
    return Service{Service::Is::kCards, alternative.count, milli};
  }
  return Service{};
}

// All requests of the pod on one kind; those that no kind serves are not for cards.
Packing::Service Packing::together(const Services& services, size_t kind) {
  Service sum{Service::Is::kCards};
  for (size_t i = 0; i < services.by_request.size(); ++i) {
    if (!services.for_cards[i]) continue;
    const Service& service = services.by_request[i][kind];
    if (service.is == Service::Is::kNone) return {};
    const bool second = sum.count > 0;
    if (second && (service.milli != kWholeCard || sum.milli != kWholeCard)) return {Service::Is::kInexpressible};
    sum.count += service.count;
    sum.milli = service.milli;
  }
  if (sum.count > placement::kMaxCards) return {};
  return sum;
}

placement::Node Packing::node_of(const NodeEntry& entry, placement::Kind kind) {
  placement::Node node{.cpu_milli = free_of(entry, "cpu", kPlentyCpu),
                       .memory_bytes = free_of(entry, "memory", kPlentyMemory),
                       .free_milli = {},
                       .kind = kind};
  node.free_milli.reserve(entry.cards.cards.size());
  for (const Card& card : entry.cards.cards) node.free_milli.push_back(free_milli(*card.device));
  return node;
}

// The inventory may have no such node any more, or another one of that name.
void Packing::drop(const std::string& name) {
  const auto known = numbers_.find(name);
  if (known == numbers_.end()) return;
  for (Kind& kind : kinds_) {
    if (kind.sample == entries_[known->second]) kind.sample = nullptr;
  }
  entries_[known->second] = nullptr;
  std::ignore = placer_->nodes().remove(known->second);
  numbers_.erase(known);
}

void Packing::update(State::Impl& state, const std::string& name) {
  const auto found = state.inventory.nodes().find(name);
  if (found == state.inventory.nodes().end()) return drop(name);
  NodeEntry& entry = found->second;
  entry.touched = false;
  if (entry.cards.number == kNoNumber) drop(name);
  if (std::exchange(entry.reshaped, false)) {
    const uint32_t number = entry.cards.number;
    entry.cards = cards_of(entry, state.managed_driver, state.options);
    entry.cards.number = number;
    allowed_.clear();
  }
  if (rebuild_) return;
  if (entry.cards.kind.empty()) {
    drop(name);
    entry.cards.number = kNoNumber;
    return;
  }
  const auto kind = std::lower_bound(kinds_.begin(), kinds_.end(), entry.cards.kind,
                                     [](const Kind& a, const std::string& b) { return a.name < b; });
  const bool new_kind = kind == kinds_.end() || kind->name != entry.cards.kind;
  const bool is_new = entry.cards.number == kNoNumber;
  rebuild_ = new_kind || (is_new && !numbers_.empty() && name < numbers_.rbegin()->first);
  if (rebuild_) return;
  const placement::Node node = node_of(entry, static_cast<placement::Kind>(kind - kinds_.begin()));
  if (!is_new) {
    if (placer_->nodes().node(entry.cards.number) == node) return;
    for (Kind& other : kinds_) {
      if (other.sample == &entry) other.sample = nullptr;  // found again
    }
    std::ignore = placer_->nodes().set(entry.cards.number, node);
    return;
  }
  const auto number = placer_->nodes().add(node);
  if (!number) return;
  entry.cards.number = *number;
  numbers_[name] = *number;
  entries_.push_back(&entry);
}

void Packing::rebuild(State::Impl& state) {
  rebuild_ = false;
  placer_ = std::make_unique<placement::Placer>(placement::PlacerOptions{});
  numbers_.clear();
  entries_.clear();
  kinds_.clear();
  allowed_.clear();
  std::set<std::string> kinds;
  for (const auto& [name, entry] : state.inventory.nodes()) {
    if (!entry.cards.kind.empty()) kinds.insert(entry.cards.kind);
  }
  for (const std::string& kind : kinds) kinds_.push_back({.name = kind});
  for (auto& [name, entry] : state.inventory.nodes()) {
    entry.cards.number = kNoNumber;
    const auto kind = std::distance(kinds.begin(), kinds.find(entry.cards.kind));
    if (entry.cards.kind.empty()) continue;
    const auto number = placer_->nodes().add(node_of(entry, static_cast<placement::Kind>(kind)));
    if (!number) continue;
    entry.cards.number = *number;
    numbers_[name] = *number;
    entries_.push_back(&entry);
  }
}

// Of each kind some node, and how many cards there are of it.
void Packing::find_samples() {
  for (Kind& kind : kinds_) kind = {.name = std::move(kind.name)};
  for (const auto& [name, number] : numbers_) {
    Kind& kind = kinds_[placer_->nodes().node(number).kind];
    if (kind.sample == nullptr) kind.sample = entries_[number];
    kind.cards += static_cast<int64_t>(entries_[number]->cards.cards.size());
  }
}

void Packing::refresh(State::Impl& state) {
  for (const std::string& name : state.inventory.take_touched()) update(state, name);
  const auto lost = [this] {
    return std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.sample == nullptr; });
  };
  const bool sparse = entries_.size() > 2 * numbers_.size() + kSpareNumbers;
  if (lost()) find_samples();
  const bool anew = rebuild_ || sparse || lost();  // a kind that has no node left goes
  if (anew) rebuild(state);
  if (anew || arrivals_.due()) {
    learn(state);
  } else if (arrivals_.seen() - observed_ >= kObserveEvery) {
    placer_->observe();
    observed_ = arrivals_.seen();
  }
  if (placer_->known_requests() > kMaxRequests) placer_->forget_requests();
}

void Packing::learn(State::Impl& state) {
  find_samples();
  placement::RequestTable requests;
  placement::Mix mix;
  for (const auto& [key, entry] : arrivals_.entries()) {
    PlacementRequest request;
    request.pod = &entry.pod;
    request.claims = entry.claims;
    auto placement = make_placement(state, request);
    if (!placement) continue;  // its class is gone, say
    const auto ask = ask_of(*placement);
    if (!ask || !*ask) continue;
    const placement::RequestId id = requests.intern((*ask)->mix);
    if (id == mix.classes.size()) mix.classes.push_back({(*ask)->mix, 0});
    mix.classes[id].weight += entry.count;
  }
  if (mix.classes.size() > kMaxClasses) {
    std::stable_sort(mix.classes.begin(), mix.classes.end(),
                     [](const auto& a, const auto& b) { return a.weight > b.weight; });
    mix.classes.resize(kMaxClasses);
  }
  for (const placement::MixClass& entry : mix.classes) mix.total += entry.weight;
  placer_->learn(mix);
  arrivals_.learnt();
  observed_ = arrivals_.seen();
}

// By kind, whether the pod's selectors let it onto some node of it. Null: onto all.
const std::vector<bool>* Packing::nodes_allow(const Placement& placement) {
  const model::Pod* pod = placement.request.pod;
  if (pod == nullptr || (pod->node_selector.empty() && !pod->required_node_affinity)) return nullptr;
  if (allowed_.size() >= kMaxSignatures) allowed_.clear();
  const auto [known, added] = allowed_.try_emplace(fit_signature(*pod));
  if (!added) return &known->second;
  known->second.assign(kinds_.size(), false);
  for (const auto& [name, number] : numbers_) {
    std::vector<bool>::reference allowed = known->second[placer_->nodes().node(number).kind];
    if (!allowed) allowed = model::matches_node(*pod, entries_[number]->node);
  }
  return &known->second;
}

// What each kind does for each request. Nothing: that cannot be expressed.
Result<std::optional<Packing::Services>> Packing::services_of(Placement& placement) const {
  Services services;
  for (allocator::PreparedClaim& claim : placement.claims) {
    for (allocator::PreparedRequest& request : claim.requests) {
      std::vector<Service>& by_kind = services.by_request.emplace_back();
      bool any = false;
      for (const Kind& kind : kinds_) {
        HEDDLE_TRY(const Service service, service_of(request, kind.sample->cards));
        if (service.is == Service::Is::kInexpressible) return std::optional<Services>();
        any = any || service.is == Service::Is::kCards;
        by_kind.push_back(service);
      }
      services.for_cards.push_back(any);
    }
  }
  const auto& some = services.for_cards;
  if (!some.empty() && std::find(some.begin(), some.end(), true) == some.end()) return std::optional<Services>();
  return std::optional(std::move(services));
}

Result<std::optional<Packing::Ask>> Packing::ask_of(Placement& placement) {
  HEDDLE_TRY(const std::optional<Services> services, services_of(placement));
  if (!services) return std::optional<Ask>();
  const std::vector<bool>* allowed = nodes_allow(placement);
  const auto need = [&](const char* resource) {
    const auto found = placement.needs.find(resource);
    return found == placement.needs.end() ? int64_t{0} : std::max<int64_t>(found->second, 0);
  };
  std::map<std::pair<int, int>, placement::Request> by_size;
  std::map<std::pair<int, int>, int64_t> cards;  // of the fleet
  std::vector<placement::Kind> all;
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (allowed != nullptr && !(*allowed)[kind]) continue;
    const Service service = together(*services, kind);
    if (service.is == Service::Is::kInexpressible) return std::optional<Ask>();
    if (service.is == Service::Is::kNone) continue;
    const std::pair size{static_cast<int>(service.count), service.milli};
    placement::Request& request = by_size[size];
    request = {need("cpu"), need("memory"), size.first, size.second, std::move(request.kinds)};
    request.kinds.push_back(static_cast<placement::Kind>(kind));
    cards[size] += kinds_[kind].cards;
    all.push_back(static_cast<placement::Kind>(kind));
  }
  if (by_size.empty()) return std::optional<Ask>();
  if (all.size() == kinds_.size()) all.clear();  // any
  const auto most =
      std::max_element(cards.begin(), cards.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Ask ask{.variants = {}, .mix = by_size.at(most->first), .newcomer = placement.policy.newcomer()};
  ask.mix.kinds = all;
  if (by_size.size() == 1) by_size.begin()->second.kinds = all;
  for (const auto& [size, request] : by_size) ask.variants.push_back(placer_->intern(request));
  return std::optional(std::move(ask));
}

// Of the cards in use that a single share would leave alike, the one where it and the others disturb each other least.
size_t Packing::least_disturbed(const Ask& ask, const placement::Choice& choice, size_t card) const {
  const placement::Node& node = placer_->nodes().node(choice.node);
  const std::vector<Card>& cards = entries_[choice.node]->cards.cards;
  int milli = 0;
  for (const placement::RequestId id : ask.variants) {
    const placement::Request& request = placer_->request(id);
    const bool here =
        request.kinds.empty() || std::binary_search(request.kinds.begin(), request.kinds.end(), node.kind);
    if (here) milli = request.milli;
  }
  const auto part = [&](size_t at) { return alike_part((node.free_milli[at] - milli) * kMillionthsInMilli); };
  const auto order = [&](size_t at) {
    return std::pair(disturbance(*ask.newcomer, cards[at].device->held.sharers), node.free_milli[at]);
  };
  size_t best = card;
  for (size_t at = 0; at < cards.size(); ++at) {
    const bool may = cards[at].device->held.shares > 0 && node.free_milli[at] >= milli && part(at) == part(card);
    if (may && order(at).first < order(card).first && (best == card || order(at) < order(best))) best = at;
  }
  return best;
}

// Of cards with as much free as those that were chosen any is as good, so those that lie close together are taken, of
// those where the tenants disturb each other least.
std::vector<size_t> Packing::chosen(const Ask& ask, const placement::Choice& choice) const {
  std::vector<size_t> cards(choice.cards.begin(), choice.cards.end());
  if (cards.empty()) return cards;
  const NodeEntry& node = *entries_[choice.node];
  const std::vector<uint16_t>& free = placer_->nodes().node(choice.node).free_milli;
  const uint16_t milli = free[cards.front()];
  const bool equal = std::all_of(cards.begin(), cards.end(), [&](size_t card) { return free[card] == milli; });
  if (!equal) return cards;
  std::vector<size_t> from;
  for (size_t card = 0; card < free.size(); ++card) {
    if (free[card] == milli) from.push_back(card);
  }
  if (ask.newcomer) {
    const auto of = [&](size_t card) {
      return disturbance(*ask.newcomer, node.cards.cards[card].device->held.sharers);
    };
    std::vector<int64_t> least;
    for (const size_t card : from) least.push_back(of(card));
    std::nth_element(least.begin(), least.begin() + static_cast<std::ptrdiff_t>(cards.size()) - 1, least.end());
    std::erase_if(from, [&](size_t card) { return of(card) > least[cards.size() - 1]; });
  }
  cards = close_together(node.cards.cards, from, cards.size());
  const bool single = ask.newcomer && ask.newcomer->single && cards.size() == 1 && milli < kWholeCard;
  if (single) cards.front() = least_disturbed(ask, choice, cards.front());
  return cards;
}

std::vector<const DeviceInfo*> Packing::devices_of(const Ask& ask, const placement::Choice& choice) const {
  std::vector<const DeviceInfo*> devices;
  for (const size_t card : chosen(ask, choice)) devices.push_back(entries_[choice.node]->cards.cards[card].device);
  return devices;
}

// Of the card where it is most.
int64_t Packing::disturbance_of(const Ask& ask, const placement::Choice& choice) const {
  int64_t most = 0;
  for (const DeviceInfo* device : devices_of(ask, choice)) {
    const bool unused = device->held.shares == 0;
    most = std::max(most, unused ? kUnusedCard : disturbance(*ask.newcomer, device->held.sharers));
  }
  return most;
}

std::vector<const DeviceInfo*> Packing::close_cards(const Ask& ask, const NodeEntry& node) const {
  std::vector<const DeviceInfo*> devices;
  if (ask.mix.milli != kWholeCard || node.cards.number == kNoNumber) return devices;
  std::vector<size_t> from;
  for (size_t card = 0; card < node.cards.cards.size(); ++card) {
    if (free_milli(*node.cards.cards[card].device) == kWholeCard) from.push_back(card);
  }
  const auto count = static_cast<size_t>(ask.mix.cards);
  if (from.size() < count) return devices;
  for (const size_t card : close_together(node.cards.cards, from, count)) {
    devices.push_back(node.cards.cards[card].device);
  }
  return devices;
}

Result<bool> Packing::visit(const Ask& ask, const Take& take) {
  const auto take_choice = [&](const placement::Choice& choice) {
    return take(*entries_[choice.node], devices_of(ask, choice));
  };
  if (!ask.newcomer) return placer_->visit(ask.variants, take_choice);
  return placer_->visit(ask.variants, take_choice,
                        [&](const placement::Choice& choice) { return disturbance_of(ask, choice); });
}

Result<bool> Packing::visit_node(const Ask& ask, const NodeEntry& node, const Take& take) {
  if (node.cards.number == kNoNumber) return false;
  for (const placement::RequestId variant : ask.variants) {
    const auto choice = placer_->choose_on(node.cards.number, variant);
    if (choice) return take(node, devices_of(ask, *choice));
  }
  return false;
}

}  // namespace heddle::engine
