// One agent at a time changes what is prepared on a node, although two may run during a rolling update: a file lock,
// shared by all operations of this process that are under way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace heddle::agent {

// Thread rule: any thread. acquire() blocks while another process holds the lock, up to `patience`.
class NodeLock {
 public:
  static Result<std::unique_ptr<NodeLock>> open(const std::string& path, Duration patience);

  class Hold {
   public:
    explicit Hold(NodeLock& lock) : lock_(&lock) {}
    Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (lock_ != nullptr) lock_->release();
    }

   private:
    NodeLock* lock_;
  };
  // first: runs when this process did not hold the lock already, before anybody else here can go on. Errors:
  // kUnavailable (another agent holds it for longer, as one that was stopped does).
  Result<Hold> acquire(const std::function<Result<void>()>& first);

 private:
  NodeLock(UniqueFd fd, Duration patience) : fd_(std::move(fd)), patience_(patience) {}
  void release();

  UniqueFd fd_;
  const Duration patience_;
  std::timed_mutex mutex_;
  int64_t holders_ = 0;
};

}  // namespace heddle::agent
