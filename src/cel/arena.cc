#include "cel/arena.h"

#include <algorithm>
#include <cstring>

namespace heddle::cel {

namespace {
constexpr size_t kFirstBlock = 4096;
}

void* Arena::allocate(size_t bytes, size_t alignment) {
  size_t start = (used_in_last_ + alignment - 1) / alignment * alignment;
  if (blocks_.empty() || start + bytes > blocks_.back().size) {
    size_t size = blocks_.empty() ? kFirstBlock : std::min(blocks_.back().size * 2, size_t{1} << 20);
    size = std::max(size, bytes + alignment);
    if (total_ + size > budget_) {
      exhausted_ = true;
      return nullptr;
    }
    blocks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size]), size});
    total_ += size;
    start = 0;
  }
  used_in_last_ = start + bytes;
  return blocks_.back().bytes.get() + start;
}

std::string_view Arena::copy(std::string_view text) {
  if (text.empty()) return {};
  auto* memory = static_cast<char*>(allocate(text.size(), 1));
  if (memory == nullptr) return {};
  std::memcpy(memory, text.data(), text.size());
  return {memory, text.size()};
}

void Arena::destroy() {
  for (auto it = owned_.rbegin(); it != owned_.rend(); ++it) it->destroy(it->object);
  owned_.clear();
}

void Arena::reset() {
  destroy();
  if (blocks_.size() > 1) blocks_.resize(1);
  total_ = blocks_.empty() ? 0 : blocks_.front().size;
  used_in_last_ = 0;
  exhausted_ = false;
}

}  // namespace heddle::cel
