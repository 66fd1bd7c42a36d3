#include "guard/preload/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace heddle::guard {
namespace {

int open_file(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0));
}

void close_file(int fd) {
  syscall(SYS_close, fd);
}

// The kernel's struct stat is the C library's on the 64-bit machines that we build for.
int status_of(int fd, struct stat* status) {
  return static_cast<int>(syscall(SYS_fstat, fd, status));
}

char* put_number(char* out, uint64_t value) {
  char digits[20];
  int n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (n > 0) *out++ = digits[--n];
  return out;
}

char* put_text(char* out, const char* end, const char* text) {
  while (*text != '\0' && out < end) *out++ = *text++;
  return out;
}

// The field of /proc/<pid>/stat with this number (from 3), behind the command's name.
const char* stat_field(const char* stat, int field) {
  const char* p = strrchr(stat, ')');
  if (p == nullptr) return nullptr;
  ++p;
  for (int i = 3;; ++i) {
    while (*p == ' ') ++p;
    if (*p == '\0') return nullptr;
    if (i == field) return p;
    while (*p != ' ' && *p != '\0') ++p;
  }
}

uint64_t number_at(const char* text) {
  uint64_t value = 0;
  while (text != nullptr && *text >= '0' && *text <= '9') value = value * 10 + static_cast<uint64_t>(*text++ - '0');
  return value;
}

// Kernels before 4.14 cannot wipe memory at fork: a handler does it for the one region that needs it.
void* wiped_memory = nullptr;
size_t wiped_bytes = 0;
void wipe_in_child() {
  memset(wiped_memory, 0, wiped_bytes);
}

}  // namespace

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

void sleep_ns(int64_t duration) {
  if (duration <= 0) return;
  const timespec time{duration / 1000000000, duration % 1000000000};
  nanosleep(&time, nullptr);
}

long read_whole(const char* path, void* buffer, size_t bytes) {
  const int fd = open_file(path, O_RDONLY | O_NOCTTY);
  if (fd < 0) return -1;
  size_t done = 0;
  while (done < bytes) {
    const long got = syscall(SYS_read, fd, static_cast<char*>(buffer) + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  close_file(fd);
  return static_cast<long>(done);
}

uint64_t inode_of(const char* path) {
  struct stat status{};
  if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) != 0) return 0;
  return status.st_ino;
}

bool is_absent(const char* path) {
  struct stat status{};
  return syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

ProcessState process_state(uint32_t pid) {
  char path[40];
  char* end = put_text(path, path + sizeof(path), "/proc/");
  end = pid == 0 ? put_text(end, path + sizeof(path), "self") : put_number(end, pid);
  end = put_text(end, path + sizeof(path) - 1, "/stat");
  *end = '\0';
  char text[1024];
  const long got = read_whole(path, text, sizeof(text) - 1);
  ProcessState state;
  if (got <= 0) return state;
  text[got] = '\0';
  const char* letter = stat_field(text, 3);
  const char* started = stat_field(text, 22);
  if (letter == nullptr || started == nullptr) return state;
  state.known = true;
  // The first thread may end before the others: then it shows as a zombie of a process that lives.
  state.ended = (*letter == 'Z' || *letter == 'X') && number_at(stat_field(text, 20)) <= 1;
  state.start_time = number_at(started);
  return state;
}

bool pid_is_free(uint32_t pid) {
  return syscall(SYS_kill, static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

uint32_t own_pid() {
  return static_cast<uint32_t>(syscall(SYS_getpid));
}
uint32_t own_pid_namespace() {
  return static_cast<uint32_t>(inode_of("/proc/self/ns/pid"));
}

void* map_private(size_t bytes, OnFork on_fork) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (on_fork == OnFork::kKeep) return memory;
  if (on_fork == OnFork::kDrop) {
    madvise(memory, bytes, MADV_DONTFORK);
  } else if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
    wiped_memory = memory;
    wiped_bytes = bytes;
    pthread_atfork(nullptr, nullptr, wipe_in_child);
  }
  return memory;
}

void unmap(void* memory, size_t bytes) {
  if (memory != nullptr) munmap(memory, bytes);
}

void* map_shared_file(const char* path, size_t bytes) {
  const int fd = open_file(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  struct stat status{};
  void* memory = MAP_FAILED;
  if (status_of(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == static_cast<off_t>(bytes)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close_file(fd);
  return memory == MAP_FAILED ? nullptr : memory;
}

void make_shared_file(const char* path, size_t bytes, const void* head, size_t head_bytes) {
  char temporary[560];
  char* const end = temporary + sizeof(temporary) - 24;
  char* out = put_text(temporary, end, path);
  out = put_number(put_text(out, end, "."), own_pid());
  *out = '\0';
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, temporary, flags, 0600));
  if (fd < 0) return;
  // Processes of the container may run as several users.
  const bool whole = syscall(SYS_fchmod, fd, 0666) == 0 && syscall(SYS_ftruncate, fd, bytes) == 0 &&
                     syscall(SYS_write, fd, head, head_bytes) == static_cast<long>(head_bytes);
  if (whole) syscall(SYS_linkat, AT_FDCWD, temporary, AT_FDCWD, path, 0);
  syscall(SYS_unlinkat, AT_FDCWD, temporary, 0);
  close_file(fd);
}

const void* map_readable_file(const char* path, size_t bytes) {
  const int fd = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  struct stat status{};
  void* memory = MAP_FAILED;
  if (status_of(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= static_cast<off_t>(bytes)) {
    memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  }
  close_file(fd);
  return memory == MAP_FAILED ? nullptr : memory;
}

void log_line(const char* text, const char* detail) {
  const char* where = getenv("HEDDLE_GUARD_LOG");
  if (where == nullptr || *where == '\0') return;
  char line[512];
  char* const end = line + sizeof(line) - 1;
  char* out = put_text(line, end, "heddle guard[");
  out = put_number(out, own_pid());
  out = put_text(out, end, "]: ");
  out = put_text(out, end, text);
  out = put_text(out, end, detail);
  *out++ = '\n';
  const bool to_stderr = strcmp(where, "stderr") == 0 || strcmp(where, "2") == 0;
  const int fd = to_stderr ? 2
                           : static_cast<int>(syscall(SYS_openat, AT_FDCWD, where,
                                                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
  if (fd < 0) return;
  syscall(SYS_write, fd, line, static_cast<size_t>(out - line));
  if (!to_stderr) close_file(fd);
}

}  // namespace heddle::guard
