#include "engine/arrivals.h"

#include <algorithm>
#include <utility>

#include "base/key_text.h"
#include "codec/codec.h"

namespace heddle::engine {
namespace {

constexpr int64_t kNanoInMilli = 1'000'000;

}  // namespace

void Arrivals::add(const PlacementRequest& request) {
  model::Pod pod;
  std::string key;
  if (request.pod != nullptr) {
    pod.node_selector = request.pod->node_selector;
    pod.required_node_affinity = request.pod->required_node_affinity;
    const auto needs = model::effective_requests(*request.pod);
    model::Container all{.name = "all", .requests = {}, .limits = {}, .claims = {}};
    for (const char* name : {"cpu", "memory"}) {
      const auto found = needs.find(name);
      if (found == needs.end()) continue;
      const int64_t unit = name == std::string("cpu") ? kNanoInMilli : kNanoInMilli * 1000;
      all.requests[name] = Quantity::from_nano(Int128{found->second} * unit, Quantity::Format::kDecimalSi);
    }
    pod.containers.push_back(std::move(all));
    key = fit_signature(pod);
  }
  for (const ClaimRequest& claim : request.claims) append_part(key, codec::claim_spec_json(claim.spec));
  Entry& entry = entries_[key];
  if (entry.count == 0) {
    entry.pod = std::move(pod);
    for (const ClaimRequest& claim : request.claims) entry.claims.push_back({{}, {}, claim.spec});
  }
  ++entry.count;
  ++total_;
  ++seen_;
  if (total_ >= 2 * kMemory) halve();
  if (entries_.size() > kKinds) forget_rare();
}

void Arrivals::learnt() {
  next_ = total_ + std::max(kFirst, total_ / 2);
  if (total_ >= kMemory) next_ = std::min(next_, 2 * kMemory - 1);  // beyond, they are halved
}

void Arrivals::halve() {
  total_ = 0;
  for (auto& [key, entry] : entries_) total_ += (entry.count /= 2);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.count == 0; });
  next_ = total_;
}

void Arrivals::forget_rare() {
  std::vector<int64_t> counts;
  counts.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) counts.push_back(entry.count);
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  // All of the same count: the first by name stay.
  size_t at_middle = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const bool goes = it->second.count < *middle || (it->second.count == *middle && ++at_middle > kKinds / 2);
    if (goes) total_ -= it->second.count;
    it = goes ? entries_.erase(it) : std::next(it);
  }
}

}  // namespace heddle::engine
