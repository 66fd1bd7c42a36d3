// Access to the files of the simulated machine from one process: mapping, the mutex of a card, registration of this
// process on a card, and the end of processes that are gone. Used by both libraries and by the nvsim tool.
//
// How a dead process is recognised: a registered process holds an open-file-description lock on its slot's byte through
// a mapping without a descriptor. closefrom() cannot drop it, a forked child does not inherit it (MADV_DONTFORK), exec
// and death end it. So the lock is the process's life, whatever happens to its descriptors; no time-out is involved.
//
// How its pid is known in another pid namespace: see pid_holder.h.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "state/layout.h"
#include "state/pid_holder.h"

namespace nvsim {

std::int64_t monotonic_ns();

// How the files of a kind of machine are named. sim/ascend keeps its cards in the same state under other names.
struct Naming {
  const char* root_variable;
  const char* control;
  const char* card;  // before the minor number
};
inline constexpr Naming kNvidiaNames = {"NVSIM_ROOT", "nvidiactl", "nvidia"};

// <root>/dev, with root from the environment variable of the names (empty: the real /dev).
std::string device_folder(const Naming& names = kNvidiaNames);

// A state file mapped shared. The descriptor sits high in the table, where programs that count descriptors or close
// the low ones do not meet it.
class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Zero or an errno. EPROTO: not a state file of this layout.
  int open(const std::string& path, std::size_t size);
  void* data() const { return data_; }
  const std::string& path() const { return path_; }
  // The descriptor, opened again if the program closed it. -1: the file is no longer reachable.
  int descriptor();
  // Closes the descriptor in a forked child, which has no part in the locks.
  void close_in_child();

 private:
  std::string path_;
  std::uint64_t device_ = 0, inode_ = 0;
  int descriptor_ = -1;
  void* data_ = nullptr;
};

// One card as this process sees it. Thread-safe; lives until the process ends.
// What a process holds of a card.
inline std::uint64_t resident_bytes(const ProcessSlot& slot) {
  return slot.memory_bytes + slot.managed_resident;
}

class Card {
 public:
  // Null when the file cannot be opened for reading and writing, or is no state file of this layout.
  static std::unique_ptr<Card> open(const std::string& folder, int minor, const Naming& names = kNvidiaNames);

  CardState& state() { return *static_cast<CardState*>(file_.data()); }
  const CardConfig& config() { return state().config; }

  // Holds the card; the state is up to date and free of dead processes from construction on.
  class Lock {
   public:
    explicit Lock(Card& card);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    bool ok() const { return ok_; }
    std::int64_t now() const { return now_; }

   private:
    Card& card_;
    bool ok_ = false;
    std::int64_t now_ = 0;
  };

  // The instance that this process has of the card; before attach().
  void choose_instance(int gpu, int compute) { gpu_instance_ = gpu, compute_instance_ = compute; }
  int gpu_instance() const { return gpu_instance_; }
  // This process is a client of MPS with this part of the SMs; before attach().
  void join_mps(std::uint32_t percent) { mps_percent_ = percent; }
  std::uint32_t mps_percent() const { return mps_percent_; }
  int compute_instance() const { return compute_instance_; }
  // Registers this process (idempotent). False: the card has no slot left, or its instance is gone. Caller holds the
  // lock.
  bool attach();
  // Ends the registration. Caller holds the lock.
  void detach();
  // This process's slot, -1 before attach().
  int slot_index() const { return slot_; }
  ProcessSlot& slot() { return state().slots[slot_]; }
  // Memory in use by processes, of the whole card or of one instance. Caller holds the lock.
  std::uint64_t used_bytes();
  std::uint64_t used_bytes(int gpu_instance);
  // Moves managed pages to the host until `bytes` more can be had of the card or of this process's instance, those of
  // the process that has most of them there first. False: not even all of them would do. Caller holds the lock.
  bool make_room(std::uint64_t bytes);
  // Moves managed pages of this process to the card as far as there is room. Caller holds the lock.
  void bring_in();
  // What programs can have: of the card, or of an instance of it.
  std::uint64_t usable_bytes(int gpu_instance);
  // Multiprocessors of the card, or of a compute instance of it.
  std::uint32_t sms(int gpu_instance, int compute_instance);
  // The folder of the state file, such as /dev.
  std::string folder() const { return file_.path().substr(0, file_.path().rfind('/')); }
  // The pid of a slot's process as this process sees it, 0: it lies outside this pid namespace. Caller holds the lock.
  std::int64_t pid_of(int slot);
  // Waits while the card hangs, then tells whether it is lost.
  bool lost();
  void close_in_child() { file_.close_in_child(); }

 private:
  Card() = default;
  bool alive(int slot);
  void reap();
  bool take_alive_lock(int slot);

  std::mutex mutex_;
  SharedFile file_;
  int slot_ = -1;
  int gpu_instance_ = -1;
  int compute_instance_ = -1;
  std::uint32_t mps_percent_ = 0;
  void* pin_ = nullptr;  // the mapping that keeps the liveness lock
  std::unique_ptr<PidHolder> pid_holder_;
};

// What this process can see of the machine.
class MachineView {
 public:
  // 0 or an errno of the control file. Cards whose file cannot be opened are not there. Sorted by PCI address.
  int open(const Naming& names = kNvidiaNames);
  Machine& machine() { return *static_cast<Machine*>(control_.data()); }
  const std::vector<std::unique_ptr<Card>>& cards() const { return cards_; }
  void close_in_child();

 private:
  SharedFile control_;
  std::vector<std::unique_ptr<Card>> cards_;
};

}  // namespace nvsim
