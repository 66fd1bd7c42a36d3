#include "allocator/shapes.h"

#include <algorithm>
#include <functional>
#include <string>

namespace heddle::allocator {
namespace {

bool same(const Shape& a, const Shape& b) {
  return a.shared == b.shared && a.alone == b.alone && a.memory == b.memory &&
         std::equal(a.capacities.begin(), a.capacities.end(), b.capacities.begin(), b.capacities.end(),
                    [](const CapacityInfo& left, const CapacityInfo& right) {
                      return left.name == right.name && left.published == right.published;
                    });
}

size_t hash_of(const Shape& shape) {
  size_t hash = shape.shared ? 1 : 0;
  const auto add = [&](size_t part) { hash = hash * 31 + part; };
  for (const CapacityInfo& capacity : shape.capacities) {
    add(std::hash<std::string>{}(capacity.name));
    add(static_cast<size_t>(capacity.value));
  }
  return hash;
}

}  // namespace

std::shared_ptr<const Shape> Shapes::intern(Shape shape) {
  const size_t hash = hash_of(shape);
  const auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    auto known = it->second.shape.lock();
    if (known && same(*known, shape)) return known;
  }
  if (known_.size() >= sweep_at_) sweep();
  shape.id = take_id();
  auto kept = std::make_shared<const Shape>(std::move(shape));
  known_.emplace(hash, Known{kept, kept->id});
  return kept;
}

uint32_t Shapes::take_id() {
  if (free_ids_.empty()) return next_id_++;
  const uint32_t id = free_ids_.back();
  free_ids_.pop_back();
  return id;
}

void Shapes::sweep() {
  constexpr size_t kLeast = 64;
  std::erase_if(known_, [&](const auto& entry) {
    const bool gone = entry.second.shape.expired();
    if (gone) free_ids_.push_back(entry.second.id);
    return gone;
  });
  sweep_at_ = std::max(kLeast, known_.size() * 2);
}

}  // namespace heddle::allocator
