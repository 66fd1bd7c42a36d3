#include "vendors/source.h"

#include <algorithm>
#include <tuple>

#include "base/file.h"
#include "vendors/partition.h"
#include "vendors/wire.h"

namespace heddle::vendors {
namespace {

constexpr std::string_view kNotReported = "the driver no longer reports this card";

Card* find_card(std::vector<Card>& cards, const std::string& uuid) {
  const auto found = std::ranges::find(cards, uuid, &Card::uuid);
  return found == cards.end() ? nullptr : &*found;
}

}  // namespace

CardSource::CardSource(SourceOptions options, Ask ask, const Clock& clock)
    : options_(std::move(options)), ask_(std::move(ask)), clock_(clock) {
  load_memory();
}

void CardSource::refresh() {
  const int64_t now = clock_.monotonic_nanos();
  const bool discover =
      stale_.exchange(false) || !discovered_ || now - last_discovery_nanos_ >= options_.discover_interval.nanos;
  if (discover) {
    const std::lock_guard turn(discovering_);
    const Result<std::string> answer = ask_(kAskCards, options_.deadline);
    if (!answer) return note_failure(answer.error().text());
    Result<Inventory> found = parse_inventory(*answer);
    if (!found) return note_failure(found.error().text());
    if (found->state != LibraryState::kOk) {
      const std::lock_guard lock(mutex_);
      state_.inventory.state = found->state;
      state_.inventory.detail = found->detail;
      state_.inventory.library_path = found->library_path;
    } else {
      merge(*std::move(found));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (state_.inventory.state != LibraryState::kOk) {
      discovered_ = false;
      if (state_.inventory.cards.empty()) {  // nothing to judge: a machine without this vendor
        state_.current = true;
        return;
      }
    }
  }
  const Result<std::string> answer = ask_(kAskStatus, options_.deadline);
  if (!answer) return note_failure(answer.error().text());
  const Result<StatusReport> report = parse_status(*answer);
  if (!report) return note_failure(report.error().text());
  if (report->state != LibraryState::kOk) return note_failure(report->detail);
  judge(*report);
  if (discover) {
    discovered_ = true;
    last_discovery_nanos_ = now;
    save_memory();
  }
}

Snapshot CardSource::snapshot() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Result<TimesReport> CardSource::times() const {
  HEDDLE_TRY(const std::string answer, ask_(kAskTimes, options_.deadline));
  return parse_times(answer);
}

Result<int64_t> CardSource::place_partition(const PartitionOrder& order, const std::vector<int64_t>& taken) const {
  HEDDLE_TRY(const std::string answer, ask_(partition_call(kPlace, order, taken), options_.partition_deadline));
  return parse_place(answer);
}

Result<Card> CardSource::make_partition(const PartitionOrder& order) {
  const std::lock_guard turn(discovering_);
  const Result<std::string> answer = ask_(partition_call(kMake, order), options_.partition_deadline);
  if (!answer) {
    stale_ = true;
    return tl::unexpected(answer.error());
  }
  HEDDLE_CHECK_OK(take_in(*answer));
  const std::lock_guard lock(mutex_);
  const Card* made = find_partition(state_.inventory.cards, order);
  if (made != nullptr && !missing_.contains(made->uuid)) return *made;
  return fail(Code::kUnavailable, "the driver does not show the partition that it made");
}

Result<void> CardSource::drop_partition(const PartitionOrder& order) {
  const std::lock_guard turn(discovering_);
  HEDDLE_TRY(const std::string answer, ask_(partition_call(kDrop, order), options_.partition_deadline));
  HEDDLE_CHECK_OK(take_in(answer));
  const std::lock_guard lock(mutex_);
  const Card* left = find_partition(state_.inventory.cards, order);
  if (left == nullptr) return {};
  const std::string uuid = left->uuid;
  missing_.erase(uuid);
  std::erase_if(state_.inventory.cards, [&](const Card& card) { return card.uuid == uuid; });
  return {};
}

// The cards as they are after a change: how healthy they are is what the last look at them said.
Result<void> CardSource::take_in(const std::string& answer) {
  HEDDLE_TRY(Inventory found, parse_inventory(answer));
  if (found.state != LibraryState::kOk) return fail(Code::kUnavailable, found.detail);
  {
    const std::lock_guard lock(mutex_);
    for (const Card& known : state_.inventory.cards) {
      Card* card = find_card(found.cards, known.uuid);
      if (card == nullptr || missing_.contains(known.uuid)) continue;
      card->healthy = known.healthy;
      card->health_message = known.health_message;
    }
  }
  merge(std::move(found));
  return {};
}

void CardSource::forget_missing(const std::function<bool(const std::string& uuid)>& keep) {
  const std::lock_guard lock(mutex_);
  std::erase_if(state_.inventory.cards,
                [&](const Card& card) { return missing_.contains(card.uuid) && !keep(card.uuid); });
}

void CardSource::load_memory() {
  if (options_.memory_file.empty()) return;
  const Result<std::string> text = read_file(options_.memory_file);
  if (!text) return;
  Result<Inventory> known = parse_inventory(*text);
  if (!known) return;
  state_.inventory = *std::move(known);
  for (Card& card : state_.inventory.cards) {
    card.healthy = false;
    card.health_message = "the driver has not answered since the agent started";
  }
}

void CardSource::save_memory() const {
  if (options_.memory_file.empty()) return;
  const std::string text = inventory_json(snapshot().inventory);
  const Result<std::string> before = read_file(options_.memory_file);
  if (before && *before == text) return;
  // What cannot be kept costs the last known state over a restart, nothing else.
  (void)write_file_atomic(options_.memory_file, text, 0600);
}

// A card that vanished stays in the list, unhealthy: it may be granted, and its charge must not vanish with it.
void CardSource::merge(Inventory found) {
  const std::lock_guard lock(mutex_);
  missing_.clear();
  for (const Card& known : state_.inventory.cards) {
    if (find_card(found.cards, known.uuid) != nullptr) continue;
    missing_[known.uuid] = kNotReported;
    Card& kept = found.cards.emplace_back(known);
    kept.healthy = false;
    kept.health_message = kNotReported;
  }
  // A minor number may have passed to another card: who looks a card up by it shall find the one that is there.
  std::ranges::sort(found.cards, {}, [this](const Card& card) {
    return std::tuple(card.minor, missing_.contains(card.uuid), card.uuid);
  });
  state_.inventory = std::move(found);
}

// Takes in what was reported and lets go of what has passed.
void CardSource::hold_events(const StatusReport& report) {
  const int64_t now = clock_.monotonic_nanos();
  for (auto at = events_.begin(); at != events_.end();) {
    Held& held = at->second;
    const bool here = std::ranges::find(report.cards, at->first, &CardStatus::uuid) != report.cards.end();
    const bool is_back = here && held.away;
    held.away = !here;
    const bool passed = !held.event.needs_reset && now - held.since_nanos >= options_.event_hold.nanos;
    at = is_back || passed ? events_.erase(at) : std::next(at);
  }
  for (const HealthEvent& event : report.events) {
    Held& held = events_[event.uuid];
    held.since_nanos = now;
    // What needs a reset is not forgotten for a lesser event that comes later.
    if (event.needs_reset || !held.event.needs_reset) held.event = event;
  }
}

void CardSource::judge(const StatusReport& report) {
  const std::lock_guard lock(mutex_);
  failures_in_row_ = 0;
  hold_events(report);
  for (Card& card : state_.inventory.cards) {
    const auto status = std::ranges::find(report.cards, card.uuid, &CardStatus::uuid);
    const auto event = events_.find(card.uuid);
    if (status == report.cards.end()) {
      card.healthy = false;
      card.health_message = kNotReported;
    } else if (!status->healthy) {
      card.healthy = false;
      card.health_message = status->health_message;
    } else if (event != events_.end()) {
      card.healthy = false;
      card.health_message = event->second.event.message;
    } else {
      card.healthy = true;
      card.health_message.clear();
    }
  }
  state_.statuses = report.cards;
  state_.current = true;
  state_.trouble.clear();
}

void CardSource::note_failure(const std::string& why) {
  const std::lock_guard lock(mutex_);
  ++failures_in_row_;
  discovered_ = false;  // whatever answers next may be another driver
  state_.current = false;
  state_.trouble = why;
  state_.statuses.clear();
  if (failures_in_row_ < options_.failures_until_unhealthy) return;
  for (Card& card : state_.inventory.cards) {
    card.healthy = false;
    card.health_message = why;
  }
}

}  // namespace heddle::vendors
