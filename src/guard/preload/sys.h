// The few services of the system that the guard uses, by raw system call where the C library's wrapper is newer than
// glibc 2.17 or could be interposed by somebody else. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::guard {

int64_t now_ns();  // CLOCK_MONOTONIC
void sleep_ns(int64_t duration);

// Reads a file into `buffer`; gives the bytes read, at most `bytes`, or -1.
long read_whole(const char* path, void* buffer, size_t bytes);

// Inode of a file (links followed); 0 when it cannot be read.
uint64_t inode_of(const char* path);

// True when there is certainly no such file; a file that may not be looked at is there.
bool is_absent(const char* path);

struct ProcessState {
  bool known = false;  // /proc told
  bool ended = false;  // a zombie without other threads
  uint64_t start_time = 0;
};

// What /proc tells about a pid of our own namespace; 0: ourselves.
ProcessState process_state(uint32_t pid);

// True when no process has this pid.
bool pid_is_free(uint32_t pid);

uint32_t own_pid();
uint32_t own_pid_namespace();

// Private zeroed memory; null when there is none. The child of a fork has a copy, finds it zeroed, or has it not.
enum class OnFork { kKeep, kWipe, kDrop };
void* map_private(size_t bytes, OnFork on_fork);
void unmap(void* memory, size_t bytes);

// Maps a shared file of exactly `bytes` for reading and writing and keeps no descriptor; null: missing, not a regular
// file, another size, not writable.
void* map_shared_file(const char* path, size_t bytes);

// Makes a sparse file of `bytes` that begins with `head`, unless there is one; it appears whole.
void make_shared_file(const char* path, size_t bytes, const void* head, size_t head_bytes);

// Maps the first `bytes` of a file for reading, with what others write into it; null: missing, shorter.
const void* map_readable_file(const char* path, size_t bytes);

// One line to where HEDDLE_GUARD_LOG says: "stderr", "2", or the path of a file. Without it: nothing.
void log_line(const char* text, const char* detail = "");

}  // namespace heddle::guard
