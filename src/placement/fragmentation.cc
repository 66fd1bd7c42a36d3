#include "placement/fragmentation.h"

#include <algorithm>

namespace heddle::placement {
namespace {

template <typename T>
void sort_distinct(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// How many of `levels` are at most `value`.
size_t levels_within(const std::vector<int64_t>& levels, int64_t value) {
  return static_cast<size_t>(std::upper_bound(levels.begin(), levels.end(), value) - levels.begin());
}

template <typename T>
uint32_t index_of(const std::vector<T>& values, T value) {
  return static_cast<uint32_t>(std::lower_bound(values.begin(), values.end(), value) - values.begin());
}

}  // namespace

Fragmentation::Fragmentation(const Mix& mix) {
  std::vector<int> millis;
  for (const MixClass& entry : mix.classes) {
    if (entry.request.cards == 0) continue;
    cpu_levels_.push_back(entry.request.cpu_milli);
    memory_levels_.push_back(entry.request.memory_bytes);
    demands_.push_back(entry.request.cards);
    millis.push_back(entry.request.milli);
    weight_ += entry.weight;
  }
  sort_distinct(cpu_levels_);
  sort_distinct(memory_levels_);
  sort_distinct(demands_);
  sort_distinct(millis);
  ranks_ = millis.size() + 1;
  rank_of_milli_.resize(kWholeCard + 1);
  for (int milli = 0; milli <= kWholeCard; ++milli) {
    const auto above = std::upper_bound(millis.begin(), millis.end(), milli);
    rank_of_milli_[static_cast<size_t>(milli)] = static_cast<uint16_t>(above - millis.begin());
  }
  for (const MixClass& entry : mix.classes) {
    const Request& request = entry.request;
    if (request.cards == 0) continue;
    const size_t rank = index_of(millis, request.milli) + size_t{1};
    classes_.push_back({index_of(cpu_levels_, request.cpu_milli), index_of(memory_levels_, request.memory_bytes),
                        static_cast<uint32_t>(index_of(demands_, request.cards) * ranks_ + rank), entry.weight,
                        request.kinds});
  }
  rows_.assign(demands_.size() * ranks_, 0);  // row 0: nothing fits
}

void Fragmentation::fill_row(Kind kind, size_t cpu_level, size_t memory_level, int64_t* row) const {
  for (const Class& entry : classes_) {
    if (entry.cpu_level >= cpu_level || entry.memory_level >= memory_level) continue;
    if (!entry.kinds.empty() && !std::binary_search(entry.kinds.begin(), entry.kinds.end(), kind)) continue;
    row[entry.column] += entry.weight;
  }
  for (size_t demand = 0; demand < demands_.size(); ++demand) {
    for (size_t rank = 1; rank < ranks_; ++rank) row[demand * ranks_ + rank] += row[demand * ranks_ + rank - 1];
  }
}

Fragmentation::Room Fragmentation::room(Kind kind, int64_t cpu_milli, int64_t memory_bytes) {
  const size_t cpu_level = levels_within(cpu_levels_, cpu_milli);
  const size_t memory_level = levels_within(memory_levels_, memory_bytes);
  if (cpu_level == 0 || memory_level == 0) return rows_.data();
  if (row_index_.size() <= kind) row_index_.resize(size_t{kind} + 1);
  std::vector<uint32_t>& index = row_index_[kind];
  if (index.empty()) index.assign((cpu_levels_.size() + 1) * (memory_levels_.size() + 1), 0);
  uint32_t& at = index[cpu_level * (memory_levels_.size() + 1) + memory_level];
  const size_t width = demands_.size() * ranks_;
  if (at == 0) {
    at = static_cast<uint32_t>(rows_.size() / width);
    rows_.resize(rows_.size() + width, 0);
    fill_row(kind, cpu_level, memory_level, &rows_[at * width]);
  }
  return &rows_[at * width];
}

int64_t Fragmentation::weighted(Room room, const uint16_t* cards, int count, int64_t total) const {
  int64_t unusable = total * weight_;
  for (size_t demand = 0; demand < demands_.size() && demands_[demand] <= count; ++demand, room += ranks_) {
    // Sorted descending: classes up to the size of the last card needed fit, and leave unused the smaller cards.
    const int last = demands_[demand];
    const int64_t fitting = room[rank_of_milli_[cards[last - 1]]];
    if (fitting == 0) continue;
    unusable -= fitting * total;
    for (int i = last; i < count; ++i) unusable += cards[i] * (fitting - room[rank_of_milli_[cards[i]]]);
  }
  return unusable;
}

int64_t Fragmentation::weighted(const StateView& state) {
  int64_t total = 0;
  for (int i = 0; i < state.count; ++i) total += state.cards[i];
  if (total == 0 || weight_ == 0) return 0;
  return weighted(room(state.kind, state.cpu_milli, state.memory_bytes), state.cards, state.count, total);
}

}  // namespace heddle::placement
