// What the guard's end-to-end tests share: a folder with the guard's files and, where asked for, a simulated machine;
// and probes, that is CUDA programs under the guard that are told what to do line by line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guard/files.h"

namespace heddle::guard::test {

inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int kOk = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotSupported = 801;

// A number of an answer as a later line says it again: handles have 64 bits without a sign.
inline std::string text(int64_t number) {
  return std::to_string(static_cast<uint64_t>(number));
}

// A fresh folder, removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One probe process. Dies with the object, if it has not before.
class Probe {
 public:
  struct Setup {
    std::string program;                             // default: the probe
    std::string access = "dlsym";                    // or "proc"; the program's words
    std::map<std::string, std::string> environment;  // on top of the guard's and the driver's
    bool guarded = true;
  };
  Probe(const std::string& guard_folder, const std::string& library_folder, Setup setup);
  ~Probe();
  Probe(Probe&& other) noexcept;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  Probe& operator=(Probe&& other) noexcept;

  // Sends a line, waits for the answer, gives its numbers. A probe that died gives {-1}.
  std::vector<int64_t> tell(const std::string& line);
  // The answer's first number, the driver's code.
  int64_t code(const std::string& line) { return tell(line).at(0); }
  void send(const std::string& line) const;
  std::vector<int64_t> receive();
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill();
  // Lets it end by itself. Gives how it exited, as waitpid() does; 0: well.
  int end();

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string buffered_;
};

// The simulated machine, and its own truth about it as an unguarded observer reads it.
class Machine {
 public:
  // cards: the number of cards; each has `memory` MiB, `context` MiB a context, and these many SMs.
  struct Shape {
    int cards = 1;
    int64_t memory_mib = 8192;
    int64_t context_mib = 300;
    int sms = 64;
    bool moves_managed = true;  // managed pages move while several processors use them
  };
  Machine(const Folder& folder, const Shape& shape);
  [[nodiscard]] std::string uuid(int card) const { return uuids_.at(static_cast<size_t>(card)); }
  // Bytes that the processes of the machine hold on a card.
  [[nodiscard]] int64_t taken(int card) const;

 private:
  std::string root_;
  std::vector<std::string> uuids_;
  std::unique_ptr<Probe> observer_;  // not guarded
};

// Writes limits and a new usage file into the folder.
void write_guard_files(const std::string& folder, const ClaimLimits& limits);
ClaimLimits limits_for(const std::vector<DeviceLimit>& devices);
// Bytes charged on the device with this index, as the agent would read them.
int64_t charged(const std::string& folder, size_t device);

}  // namespace heddle::guard::test
