// Shows this process's pid to readers in other pid namespaces: holds a POSIX record lock whose holder's pid F_GETLK
// translates. Record locks belong to a descriptor table, and any close of the file in that table drops them, so the
// lock is held by a thread with a table of its own: nothing that the program does to its descriptors reaches it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace nvsim {

class PidHolder {
 public:
  // Locks byte `offset` of the file. Null when no thread can be made or the kernel cannot give it its own table.
  static std::unique_ptr<PidHolder> start(const std::string& path, std::int64_t offset);
  // Drops the lock; the thread ends by itself.
  ~PidHolder();
  PidHolder(const PidHolder&) = delete;
  PidHolder& operator=(const PidHolder&) = delete;

 private:
  struct Shared;
  explicit PidHolder(std::shared_ptr<Shared> shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace nvsim
