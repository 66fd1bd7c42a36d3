#include "agent/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace heddle::agent {

Result<std::unique_ptr<NodeLock>> NodeLock::open(const std::string& path, Duration patience) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno("cannot open " + path, errno);
  return std::unique_ptr<NodeLock>(new NodeLock(std::move(fd), patience));
}

Result<NodeLock::Hold> NodeLock::acquire(const std::function<Result<void>()>& first) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_.nanos);
  const auto late = [] {
    return fail(Code::kUnavailable, "another agent of this node holds the lock of the state folder and does not end");
  };
  const std::unique_lock lock(mutex_, deadline);
  if (!lock.owns_lock()) return late();
  if (holders_ == 0) {
    // The kernel has no lock with a deadline: look again, less often the longer it takes.
    auto pause = std::chrono::milliseconds(1);
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR && errno != EWOULDBLOCK) return fail_errno("cannot lock the state folder", errno);
      if (std::chrono::steady_clock::now() >= deadline) return late();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(32));
    }
    if (Result<void> done = first(); !done) {
      ::flock(fd_.get(), LOCK_UN);
      return tl::unexpected(done.error());
    }
  }
  ++holders_;
  return Hold(*this);
}

void NodeLock::release() {
  const std::lock_guard lock(mutex_);
  if (--holders_ == 0) ::flock(fd_.get(), LOCK_UN);
}

}  // namespace heddle::agent
