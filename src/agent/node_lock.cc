#include "agent/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace heddle::agent {

Result<std::unique_ptr<NodeLock>> NodeLock::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno("cannot open " + path, errno);
  return std::unique_ptr<NodeLock>(new NodeLock(std::move(fd)));
}

Result<NodeLock::Hold> NodeLock::acquire(const std::function<Result<void>()>& first) {
  const std::lock_guard lock(mutex_);
  if (holders_ == 0) {
    while (::flock(fd_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return fail_errno("cannot lock the state folder", errno);
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
