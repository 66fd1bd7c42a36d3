#include "state/pid_holder.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

namespace nvsim {

enum class Phase { kStarting, kHeld, kFailed, kStop, kEnded };

struct PidHolder::Shared {
  std::string path;
  std::int64_t offset = 0;
  std::mutex mutex;
  std::condition_variable changed;
  Phase phase = Phase::kStarting;

  void set(Phase next) {
    const std::lock_guard guard(mutex);
    phase = next;
    changed.notify_all();
  }
  void wait_while(Phase unwanted) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return phase != unwanted; });
  }
  static void* run(void* argument);
};

namespace {

// Opens and locks in the calling thread's own table. The descriptor, or -1.
int lock_byte(const std::string& path, std::int64_t offset) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  if (descriptor >= 0 && fcntl(descriptor, F_SETLK, &lock) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

void* PidHolder::Shared::run(void* argument) {
  const std::unique_ptr<std::shared_ptr<Shared>> held(static_cast<std::shared_ptr<Shared>*>(argument));
  Shared& shared = **held;
  // A new, empty table: copies of the program's descriptors would keep its pipes and sockets open.
  if (syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
    shared.set(Phase::kFailed);
    return nullptr;
  }
  const int descriptor = lock_byte(shared.path, shared.offset);
  shared.set(descriptor >= 0 ? Phase::kHeld : Phase::kFailed);
  if (descriptor >= 0) {
    shared.wait_while(Phase::kHeld);
    close(descriptor);
    shared.set(Phase::kEnded);
  }
  return nullptr;
}

std::unique_ptr<PidHolder> PidHolder::start(const std::string& path, std::int64_t offset) {
  auto shared = std::make_shared<Shared>();
  shared->path = path;
  shared->offset = offset;
  // The program's signals are not this thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread = {};
  auto* argument = new std::shared_ptr<Shared>(shared);  // the thread's, once it runs
  const bool made = pthread_create(&thread, nullptr, &Shared::run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!made) {
    delete argument;
    return nullptr;
  }
  pthread_detach(thread);
  shared->wait_while(Phase::kStarting);
  return shared->phase == Phase::kHeld ? std::unique_ptr<PidHolder>(new PidHolder(shared)) : nullptr;
}

PidHolder::PidHolder(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

PidHolder::~PidHolder() {
  shared_->set(Phase::kStop);
  shared_->wait_while(Phase::kStop);
}

}  // namespace nvsim
