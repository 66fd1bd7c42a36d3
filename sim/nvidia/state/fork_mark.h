// Tells a process from its forked children, also those made without fork(): one page that the kernel wipes in a child.
#pragma once

#include <sys/mman.h>

#include <atomic>

namespace nvsim {

class ForkMark {
 public:
  // Marks the calling process. Thread rule: once, before others ask.
  void set() {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
      madvise(page, 4096, MADV_WIPEONFORK);
      *static_cast<int*>(page) = 1;
      page_.store(static_cast<int*>(page));
    }
  }
  // True in a child of the process that was marked.
  bool in_child() const {
    const volatile int* page = page_.load();
    return page != nullptr && *page == 0;
  }

 private:
  std::atomic<int*> page_{nullptr};
};

}  // namespace nvsim
