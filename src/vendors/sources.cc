#include "vendors/sources.h"

#include <algorithm>
#include <thread>

namespace heddle::vendors {

struct CardSources::Entry {
  Entry(const VendorWorker& from, const std::string& memory_file, const Clock& clock)
      : vendor(from.vendor),
        worker({from.command}, clock),
        source(
            {.memory_file = memory_file},
            [this](std::string_view what, Duration deadline) { return worker.call(what, deadline); }, clock) {}

  std::string vendor;
  Worker worker;
  CardSource source;
};

CardSources::CardSources(const std::vector<VendorWorker>& workers, const std::string& memory_dir, const Clock& clock) {
  for (const VendorWorker& worker : workers) {
    const std::string file = memory_dir.empty() ? "" : memory_dir + "/inventory-" + worker.vendor + ".json";
    entries_.push_back(std::make_unique<Entry>(worker, file, clock));
  }
}

CardSources::~CardSources() = default;

void CardSources::refresh() {
  std::vector<std::jthread> others;
  for (size_t i = 1; i < entries_.size(); ++i) {
    others.emplace_back([entry = entries_[i].get()] { entry->source.refresh(); });
  }
  if (!entries_.empty()) entries_.front()->source.refresh();
}

std::vector<VendorSnapshot> CardSources::by_vendor() const {
  std::vector<VendorSnapshot> result;
  result.reserve(entries_.size());
  for (const auto& entry : entries_) {
    result.push_back({entry->vendor, entry->source.snapshot(), entry->worker.starts()});
  }
  return result;
}

std::vector<Card> CardSources::cards() const {
  std::vector<Card> result;
  for (const auto& entry : entries_) {
    std::ranges::move(entry->source.snapshot().inventory.cards, std::back_inserter(result));
  }
  return result;
}

std::vector<CardStatus> CardSources::statuses() const {
  std::vector<CardStatus> result;
  for (const auto& entry : entries_) {
    std::ranges::move(entry->source.snapshot().statuses, std::back_inserter(result));
  }
  return result;
}

Snapshot CardSources::snapshot() const {
  Snapshot all;
  all.current = true;
  for (const auto& entry : entries_) {
    Snapshot one = entry->source.snapshot();
    if (one.inventory.state == LibraryState::kOk) all.inventory.state = LibraryState::kOk;
    std::ranges::move(one.inventory.cards, std::back_inserter(all.inventory.cards));
    std::ranges::move(one.inventory.skipped, std::back_inserter(all.inventory.skipped));
    std::ranges::move(one.statuses, std::back_inserter(all.statuses));
    if (one.current) continue;
    all.current = false;
    all.trouble += (all.trouble.empty() ? "" : "; ") + entry->vendor + ": " + one.trouble;
  }
  return all;
}

Result<TimesReport> CardSources::times() const {
  TimesReport all;
  Result<TimesReport> answer = fail(Code::kUnavailable, "no vendor");
  bool any = false;
  for (const auto& entry : entries_) {
    if (entry->source.snapshot().inventory.cards.empty()) continue;
    Result<TimesReport> times = entry->source.times();
    if (!times) {
      answer = std::move(times);
      continue;
    }
    any = true;
    std::ranges::move(*times, std::back_inserter(all));
  }
  if (any) return all;
  return answer;
}

Result<CardSources::Entry*> CardSources::entry_of(const std::string& vendor) const {
  const auto found = std::ranges::find(entries_, vendor, [](const auto& entry) { return entry->vendor; });
  if (found == entries_.end()) return fail(Code::kUnsupported, "no library of '" + vendor + "' is used here");
  return found->get();
}

Result<int64_t> CardSources::place_partition(const std::string& vendor, const PartitionOrder& order,
                                             const std::vector<int64_t>& taken) const {
  HEDDLE_TRY(const Entry* entry, entry_of(vendor));
  return entry->source.place_partition(order, taken);
}

Result<Card> CardSources::make_partition(const std::string& vendor, const PartitionOrder& order) {
  HEDDLE_TRY(Entry * entry, entry_of(vendor));
  return entry->source.make_partition(order);
}

Result<void> CardSources::drop_partition(const std::string& vendor, const PartitionOrder& order) {
  HEDDLE_TRY(Entry * entry, entry_of(vendor));
  return entry->source.drop_partition(order);
}

void CardSources::forget_missing(const std::function<bool(const std::string& uuid)>& keep) {
  for (const auto& entry : entries_) {
    if (entry->source.snapshot().current) entry->source.forget_missing(keep);
  }
}

}  // namespace heddle::vendors
