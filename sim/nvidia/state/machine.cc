#include "state/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <tuple>

#include "state/mig.h"
#include "state/schedule.h"

namespace nvsim {
namespace {

constexpr int kLowestDescriptor = 700;
constexpr std::size_t kPage = 4096;

struct flock byte_lock(short type, std::int64_t offset) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  return lock;
}

int lock_call(int descriptor, int command, struct flock& lock) {
  int result = 0;
  do {
    result = fcntl(descriptor, command, &lock);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Opens with a descriptor of at least kLowestDescriptor where the limit allows it.
int open_high(const std::string& path) {
  const int low = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (low < 0) {
    return -1;
  }
  const int high = fcntl(low, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (high < 0) {
    return low;
  }
  ::close(low);
  return high;
}

std::uint64_t own_pid_namespace() {
  struct stat info = {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::int64_t monotonic_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::string device_folder(const Naming& names) {
  const char* root = secure_getenv(names.root_variable);
  return std::string(root == nullptr ? "" : root) + "/dev";
}

int SharedFile::open(const std::string& path, std::size_t size) {
  const int descriptor = open_high(path);
  if (descriptor < 0) {
    return errno;
  }
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || info.st_size < static_cast<off_t>(size)) {
    ::close(descriptor);
    return EPROTO;
  }
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(descriptor);
    return error;
  }
  // A child has no part in the locks of this description, so it must not keep the description alive.
  madvise(data, size, MADV_DONTFORK);
  path_ = path;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  descriptor_ = descriptor;
  data_ = data;
  return 0;
}

int SharedFile::descriptor() {
  struct stat info = {};
  if (descriptor_ >= 0 && fstat(descriptor_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    return descriptor_;
  }
  descriptor_ = open_high(path_);
  if (descriptor_ >= 0 && (fstat(descriptor_, &info) != 0 || info.st_dev != device_ || info.st_ino != inode_)) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  return descriptor_;
}

void SharedFile::close_in_child() {
  struct stat info = {};
  if (descriptor_ >= 0 && fstat(descriptor_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    ::close(descriptor_);
  }
  descriptor_ = -1;
}

std::unique_ptr<Card> Card::open(const std::string& folder, int minor, const Naming& names) {
  std::unique_ptr<Card> card(new Card());
  if (card->file_.open(folder + "/" + names.card + std::to_string(minor), sizeof(CardState)) != 0) {
    return nullptr;
  }
  if (card->state().magic != kCardMagic || card->state().version != kLayoutVersion) {
    return nullptr;
  }
  return card;
}

Card::Lock::Lock(Card& card) : card_(card) {
  card_.mutex_.lock();
  const int descriptor = card_.file_.descriptor();
  struct flock lock = byte_lock(F_WRLCK, kMutexByte);
  if (descriptor >= 0 && lock_call(descriptor, F_OFD_SETLKW, lock) == 0) {
    ok_ = true;
    card_.reap();
    now_ = monotonic_ns();
    advance(card_.state(), now_);
  }
}

Card::Lock::~Lock() {
  if (ok_) {
    struct flock lock = byte_lock(F_UNLCK, kMutexByte);
    lock_call(card_.file_.descriptor(), F_OFD_SETLK, lock);
  }
  card_.mutex_.unlock();
}

bool Card::alive(int slot) {
  struct flock lock = byte_lock(F_WRLCK, kAliveByte + slot);
  // A question that cannot be asked is no sign of death.
  return lock_call(file_.descriptor(), F_OFD_GETLK, lock) != 0 || lock.l_type != F_UNLCK;
}

void Card::reap() {
  CardState& card = state();
  for (std::uint64_t left = card.used_mask; left != 0; left &= left - 1) {
    const int index = std::countr_zero(left);
    if (index != slot_ && !alive(index)) {
      card.used_mask &= ~(1ULL << index);
    }
  }
}

bool Card::take_alive_lock(int slot) {
  const int descriptor = ::open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  struct flock lock = byte_lock(F_WRLCK, kAliveByte + slot);
  void* pin = MAP_FAILED;
  if (lock_call(descriptor, F_OFD_SETLK, lock) == 0) {
    pin = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  if (pin != MAP_FAILED) {
    madvise(pin, kPage, MADV_DONTFORK);
    pin_ = pin;
  }
  ::close(descriptor);
  return pin != MAP_FAILED;
}

bool Card::attach() {
  if (slot_ >= 0) {
    return true;
  }
  CardState& card = state();
  const bool there =
      gpu_instance_ < 0 ? card.mig.current == 0 : has_compute_instance(card, gpu_instance_, compute_instance_);
  const int index = std::countr_one(card.used_mask);
  if (!there) {
    return false;
  }
  if (index >= kMaxProcesses || !take_alive_lock(index)) {
    return false;
  }
  ProcessSlot& slot = card.slots[index];
  slot.serial = ++card.next_serial;
  slot.own_pid = getpid();
  slot.pid_namespace = own_pid_namespace();
  slot.contexts = 0;
  slot.gpu_instance = gpu_instance_;
  slot.compute_instance = compute_instance_;
  slot.mps_percent = mps_percent_;
  slot.memory_bytes = 0;
  slot.managed_bytes = 0;
  slot.managed_resident = 0;
  slot.busy_ns = 0;
  slot.kernels = 0;
  std::fill(std::begin(slot.buckets), std::end(slot.buckets), Bucket{});
  std::fill(std::begin(slot.queues), std::end(slot.queues), Queue{});
  // The records of an earlier process bear numbers that this one will use again.
  std::fill(std::begin(slot.events), std::end(slot.events), Event{});
  slot_ = index;
  pid_holder_ = PidHolder::start(file_.path(), kPidByte + index);
  card.used_mask |= 1ULL << index;
  return true;
}

void Card::detach() {
  if (slot_ < 0) {
    return;
  }
  state().used_mask &= ~(1ULL << slot_);
  pid_holder_.reset();
  munmap(pin_, kPage);
  pin_ = nullptr;
  slot_ = -1;
}

std::uint64_t Card::used_bytes() {
  std::uint64_t sum = 0;
  for (std::uint64_t left = state().used_mask; left != 0; left &= left - 1) {
    sum += resident_bytes(state().slots[std::countr_zero(left)]);
  }
  return sum;
}

std::uint64_t Card::used_bytes(int gpu_instance) {
  std::uint64_t sum = 0;
  for (std::uint64_t left = state().used_mask; left != 0; left &= left - 1) {
    const ProcessSlot& process = state().slots[std::countr_zero(left)];
    sum += process.gpu_instance == gpu_instance ? resident_bytes(process) : 0;
  }
  return sum;
}

bool Card::make_room(std::uint64_t bytes) {
  const std::uint64_t usable = usable_bytes(gpu_instance_);
  std::uint64_t movable = 0;
  for (std::uint64_t left = state().used_mask; left != 0; left &= left - 1) {
    const ProcessSlot& process = state().slots[std::countr_zero(left)];
    movable += process.gpu_instance == gpu_instance_ ? process.managed_resident : 0;
  }
  std::uint64_t used = used_bytes(gpu_instance_);
  if (used - movable > usable || bytes > usable - (used - movable)) {
    return false;
  }
  while (used + bytes > usable) {
    ProcessSlot* most = nullptr;
    for (std::uint64_t left = state().used_mask; left != 0; left &= left - 1) {
      ProcessSlot& process = state().slots[std::countr_zero(left)];
      const bool more = most == nullptr || process.managed_resident > most->managed_resident;
      most = process.gpu_instance == gpu_instance_ && more ? &process : most;
    }
    most->managed_resident -= std::min(most->managed_resident, used + bytes - usable);
    used = used_bytes(gpu_instance_);
  }
  return true;
}

void Card::bring_in() {
  const std::uint64_t usable = usable_bytes(gpu_instance_);
  const std::uint64_t free = usable - std::min(usable, used_bytes(gpu_instance_));
  slot().managed_resident += std::min(free, slot().managed_bytes - slot().managed_resident);
}

std::uint64_t Card::usable_bytes(int gpu_instance) {
  return gpu_instance < 0 ? config().memory_bytes - config().memory_reserved_bytes
                          : profile_of(state(), gpu_instance).memory_mib << 20U;
}

std::uint32_t Card::sms(int gpu_instance, int compute_instance) {
  return gpu_instance < 0 ? config().sms : compute_sms(state(), gpu_instance, compute_instance);
}

std::int64_t Card::pid_of(int slot) {
  const ProcessSlot& process = state().slots[slot];
  struct flock lock = byte_lock(F_WRLCK, kPidByte + slot);
  if (lock_call(file_.descriptor(), F_GETLK, lock) == 0 && lock.l_type != F_UNLCK) {
    return lock.l_pid;
  }
  // Not locked: the kernel of the process is too old for a holder.
  return process.pid_namespace == own_pid_namespace() ? process.own_pid : 0;
}

bool Card::lost() {
  while (__atomic_load_n(&state().faults.hang, __ATOMIC_RELAXED) != 0) {
    usleep(10'000);
  }
  return __atomic_load_n(&state().faults.lost, __ATOMIC_RELAXED) != 0;
}

int MachineView::open(const Naming& names) {
  const std::string folder = device_folder(names);
  if (const int error = control_.open(folder + "/" + names.control, sizeof(Machine)); error != 0) {
    return error;
  }
  if (machine().magic != kMachineMagic || machine().version != kLayoutVersion) {
    return EPROTO;
  }
  for (int minor = 0; minor < kMaxCards; ++minor) {
    if (std::unique_ptr<Card> card = Card::open(folder, minor, names)) {
      cards_.push_back(std::move(card));
    }
  }
  std::sort(cards_.begin(), cards_.end(), [](const auto& left, const auto& right) {
    const CardConfig &a = left->config(), &b = right->config();
    return std::tie(a.domain, a.bus, a.device) < std::tie(b.domain, b.bus, b.device);
  });
  return 0;
}

void MachineView::close_in_child() {
  control_.close_in_child();
  for (const auto& card : cards_) {
    card->close_in_child();
  }
}

}  // namespace nvsim
