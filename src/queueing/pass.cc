// The order of offers, and what a starving workload holds back.
#include <fmt/format.h>

#include <algorithm>

#include "queueing/queues_impl.h"

namespace heddle::queueing {
namespace {

// A starving workload that could not be placed.
struct Blocker {
  const Entry* entry = nullptr;
  bool entitled = false;
  bool owed = false;  // entitled as soon as what its own leaf runs has ended
  size_t scope = 0;   // the queue whose work it holds back
  std::optional<Time> could_start;
};

enum class Turn { kStarving, kEntitled, kBorrowing };

// Whether both can take the same devices, as far as is known.
bool of_one_kind(const DeviceKind& a, const DeviceKind& b) {
  const auto agree = [](const std::string& one, const std::string& other) {
    return one.empty() || other.empty() || one == other;
  };
  return agree(a.vendor, b.vendor) && agree(a.model, b.model);
}

bool compete(const Entry& a, const Entry& b) {
  for (size_t m = 0; m < a.demand.size(); ++m) {
    if (a.demand[m] > 0 && b.demand[m] > 0) return true;
  }
  return std::any_of(a.kinds.begin(), a.kinds.end(), [&](const DeviceKind& one) {
    return std::any_of(b.kinds.begin(), b.kinds.end(), [&](const auto& other) { return of_one_kind(one, other); });
  });
}

}  // namespace

struct Queues::Pass::State {
  State(Impl& the_impl, Time the_now) : impl(the_impl), now(the_now), cursors(impl.queues.size()) {
    for (const auto& [submitted, id] : impl.by_submission) order.push_back(id);
    for (size_t q = 0; q < impl.queues.size(); ++q) restart(q);
  }

  void restart(size_t q) {
    cursors[q].clear();
    for (const LeafOrder& place : impl.queues[q].waiting) cursors[q].push_back(std::get<2>(place));
    std::reverse(cursors[q].begin(), cursors[q].end());
  }

  std::optional<Offer> next();
  [[nodiscard]] bool held_back(const Entry& entry) const;
  [[nodiscard]] bool offerable(const Entry& entry, Turn turn);
  const Entry* next_starving();
  const Entry* pick(size_t q, Turn turn);
  void block(const Entry& entry, size_t scope, std::optional<Time> could_start);
  [[nodiscard]] bool inside(size_t q, size_t scope) const;
  [[nodiscard]] bool owed(const Entry& entry) const;

  Impl& impl;
  Time now;
  Turn turn = Turn::kStarving;
  std::vector<std::string> order;  // by submission
  size_t next_in_order = 0;
  std::vector<std::vector<std::string>> cursors;  // a leaf each: what is left of this turn, the next one last
  std::set<std::string> offered;
  std::vector<Blocker> blockers;
  const Entry* last = nullptr;
  bool last_starving = false;
};

bool Queues::Pass::State::held_back(const Entry& entry) const {
  for (const Blocker& blocker : blockers) {
    if (blocker.entry == &entry || !inside(entry.leaf, blocker.scope)) continue;
    // What is entitled passes what borrows. Not in the leaf of one that its guarantee is large enough for: small work
    // would use that guarantee up for ever.
    const bool uses_it_up = blocker.owed && entry.leaf == blocker.entry->leaf;
    if (!blocker.entitled && !uses_it_up && impl.fits_guarantee(entry)) continue;
    const bool ends_before =
        blocker.could_start && entry.spec.runtime && now + *entry.spec.runtime <= *blocker.could_start;
    if (!ends_before && compete(entry, *blocker.entry)) return true;
  }
  return false;
}

void Queues::Pass::State::block(const Entry& entry, size_t scope, std::optional<Time> could_start) {
  blockers.push_back({&entry, impl.fits_guarantee(entry), owed(entry), scope, could_start});
}

bool Queues::Pass::State::owed(const Entry& entry) const {
  return impl.within_guarantee(entry, Amounts(impl.meters.size(), 0));
}

bool Queues::Pass::State::inside(size_t q, size_t scope) const {
  while (q != kNone && q != scope) q = impl.queues[q].parent;
  return q == scope;
}

bool Queues::Pass::State::offerable(const Entry& entry, Turn for_turn) {
  if (entry.phase != Phase::kWaiting || offered.contains(entry.spec.id)) return false;
  if (for_turn == Turn::kEntitled && !impl.fits_guarantee(entry)) return false;
  return impl.admits(entry) && !held_back(entry);
}

const Entry* Queues::Pass::State::next_starving() {
  while (next_in_order < order.size()) {
    const Entry* entry = impl.find(order[next_in_order]);
    if (entry == nullptr || !impl.starving(*entry)) break;  // the younger ones do not starve either
    ++next_in_order;
    if (offerable(*entry, Turn::kStarving)) return entry;
    // It waits for quota: what would keep that from coming free waits with it. Its own reservation's time it waits out.
    const bool waits = entry->phase == Phase::kWaiting && entry->spec.reservation.empty();
    if (!waits || offered.contains(entry->spec.id) || impl.never_fits(*entry)) continue;
    if (held_back(*entry)) {
      // Behind one that may borrow for ever nothing is. Its leaf runs empty, and then it is entitled and goes past it.
      if (owed(*entry)) block(*entry, entry->leaf, std::nullopt);
      continue;
    }
    for (const size_t scope : impl.full_queues(*entry)) block(*entry, scope, std::nullopt);
  }
  return nullptr;
}

// The best offer of a subtree. What is passed over stays out for this turn: a pass only takes.
const Entry* Queues::Pass::State::pick(size_t q, Turn for_turn) {
  const Queue& queue = impl.queues[q];
  if (queue.leaf()) {
    std::vector<std::string>& cursor = cursors[q];
    while (!cursor.empty()) {
      const Entry* entry = impl.find(cursor.back());
      if (entry != nullptr && offerable(*entry, for_turn)) return entry;
      cursor.pop_back();
    }
    return nullptr;
  }
  std::vector<size_t> children = queue.children;
  std::sort(children.begin(), children.end(), [&](size_t a, size_t b) { return impl.goes_first(a, b); });
  for (const size_t child : children) {
    if (const Entry* entry = pick(child, for_turn)) return entry;
  }
  return nullptr;
}

std::optional<Offer> Queues::Pass::State::next() {
  last = nullptr;
  const Entry* found = nullptr;
  if (turn == Turn::kStarving) {
    found = next_starving();
    if (found == nullptr) turn = Turn::kEntitled;
  }
  last_starving = found != nullptr;
  if (found == nullptr && turn == Turn::kEntitled) {
    found = pick(0, Turn::kEntitled);
    if (found == nullptr) {
      turn = Turn::kBorrowing;
      for (size_t q = 0; q < cursors.size(); ++q) restart(q);
    }
  }
  if (found == nullptr) found = pick(0, Turn::kBorrowing);
  if (found == nullptr) return std::nullopt;
  last = found;
  offered.insert(found->spec.id);
  return Offer{found->spec.id, impl.fits_guarantee(*found), last_starving, impl.keep_intact(*found)};
}

Queues::Pass::Pass(std::unique_ptr<State> state) : state_(std::move(state)) {}
Queues::Pass::~Pass() = default;
Queues::Pass::Pass(Pass&&) noexcept = default;

std::optional<Offer> Queues::Pass::next() {
  return state_->next();
}

void Queues::Pass::refused(std::optional<Time> could_start) {
  if (state_->last == nullptr || !state_->last_starving) return;
  state_->block(*state_->last, 0, could_start);
}

Queues::Pass Queues::pass(Time now) {
  impl_->advance_to(now);
  return Pass(std::make_unique<Pass::State>(*impl_, impl_->now));
}

std::optional<Reason> Queues::refusal(const std::string& id, Time now) const {
  const Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase != Phase::kWaiting || now < impl_->now) return std::nullopt;
  return impl_->refusal(*entry);
}

size_t Queues::position(const std::string& id, Time now) const {
  const Entry* entry = impl_->find(id);
  if (entry == nullptr || entry->phase != Phase::kWaiting || now < impl_->now) return 0;
  const auto& waiting = impl_->queues[entry->leaf].waiting;
  const auto own = impl_->place(*entry);
  return 1 + static_cast<size_t>(std::count_if(waiting.begin(), waiting.end(), [&](const LeafOrder& other) {
           return impl_->place(impl_->entries.at(std::get<2>(other))) < own;
         }));
}

std::vector<std::string> Queues::waiting(const std::string& queue, Time now) const {
  const auto leaf = impl_->by_name.find(queue);
  if (leaf == impl_->by_name.end() || now < impl_->now) return {};
  std::vector<std::tuple<bool, int64_t, LeafOrder>> places;
  for (const LeafOrder& entry : impl_->queues[leaf->second].waiting)
    places.push_back(impl_->place(impl_->entries.at(std::get<2>(entry))));
  std::sort(places.begin(), places.end());
  std::vector<std::string> ids;
  ids.reserve(places.size());
  for (const auto& place : places) ids.push_back(std::get<2>(std::get<2>(place)));
  return ids;
}

}  // namespace heddle::queueing
