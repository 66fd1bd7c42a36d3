#include "placement/mix.h"

#include <algorithm>
#include <numeric>

namespace heddle::placement {

size_t RequestHash::operator()(const Request& request) const {
  uint64_t hash = 0x9e3779b97f4a7c15;
  const auto add = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  add(static_cast<uint64_t>(request.cpu_milli));
  add(static_cast<uint64_t>(request.memory_bytes));
  add(static_cast<uint64_t>(request.cards));
  add(static_cast<uint64_t>(request.milli));
  for (const Kind kind : request.kinds) add(kind);
  return hash;
}

RequestId RequestTable::intern(const Request& request) {
  const auto [found, is_new] = ids_.try_emplace(request, static_cast<RequestId>(requests_.size()));
  if (is_new) requests_.push_back(request);
  return found->second;
}

Mix most_frequent(const Mix& mix, int percent) {
  std::vector<size_t> order(mix.classes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&mix](size_t a, size_t b) { return mix.classes[a].weight > mix.classes[b].weight; });
  Mix top;
  for (const size_t i : order) {
    if (top.total * 100 >= mix.total * percent) break;
    top.classes.push_back(mix.classes[i]);
    top.total += mix.classes[i].weight;
  }
  return top;
}

bool MixLearner::add(RequestId id) {
  if (id >= counts_.size()) counts_.resize(id + size_t{1}, 0);
  ++counts_[id];
  ++total_;
  if (total_ >= 2 * kMemory) {
    total_ = 0;
    for (int64_t& count : counts_) total_ += (count /= 2);
    next_ = std::max(total_, kMemory) + kMemory / 2;
    return true;
  }
  if (total_ < next_) return false;
  next_ = std::max(total_ + kFirst, total_ + total_ / 2);
  return true;
}

Mix MixLearner::mix(const RequestTable& requests) const {
  Mix mix;
  for (RequestId id = 0; id < counts_.size(); ++id) {
    if (counts_[id] > 0) mix.classes.push_back({requests[id], counts_[id]});
  }
  mix.total = total_;
  return mix;
}

}  // namespace heddle::placement
