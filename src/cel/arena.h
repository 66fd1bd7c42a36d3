// Memory of one evaluation (or one compiled program): bump allocation, freed all at once, with a budget.
//
// A hostile expression can double a list in each step at constant cost, so the budget, not the cost limit, bounds
// memory. Not thread-safe: one arena a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::cel {

class Arena {
 public:
  explicit Arena(size_t budget_bytes = size_t{64} << 20) : budget_(budget_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { destroy(); }

  // Uninitialised memory; null when the budget is spent.
  void* allocate(size_t bytes, size_t alignment);

  // An object whose destructor runs with the arena. Null when the budget is spent.
  template <typename T, typename... Args>
  T* make(Args&&... args) {
    void* memory = allocate(sizeof(T), alignof(T));
    if (memory == nullptr) return nullptr;
    T* object = new (memory) T(std::forward<Args>(args)...);
    if constexpr (!std::is_trivially_destructible_v<T>)
      owned_.push_back({object, [](void* pointer) { static_cast<T*>(pointer)->~T(); }});
    return object;
  }

  // count objects of a trivial type, uninitialised. Null when the budget is spent.
  template <typename T>
  T* array(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count > budget_ / sizeof(T)) return nullptr;
    return static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }

  // A copy of the text; empty with a null pointer when the budget is spent.
  std::string_view copy(std::string_view text);

  // Frees everything but the first block, for reuse without going back to the heap.
  void reset();
  [[nodiscard]] bool exhausted() const { return exhausted_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  struct Owned {
    void* object;
    void (*destroy)(void*);
  };
  void destroy();

  std::vector<Block> blocks_;
  std::vector<Owned> owned_;
  size_t used_in_last_ = 0;
  size_t total_ = 0;
  size_t budget_;
  bool exhausted_ = false;
};

}  // namespace heddle::cel
