// Where a standalone Heddle keeps its things.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace heddle::standalone {

struct StatePaths {
  std::string folder;
  std::string socket;
  std::string ledger;
  std::string log;
  std::string lock;
};

StatePaths state_paths(const std::string& folder);

// Of the environment: HEDDLE_STATE_DIR's, XDG_STATE_HOME's and HOME's values, empty when not set, and the user.
struct Surroundings {
  std::string heddle_state_dir;
  std::string xdg_state_home;
  std::string home;
  int64_t uid = 0;
};

inline constexpr const char* kSystemStateDir = "/var/lib/heddle";

// The folder for `heddle up`: as given, else HEDDLE_STATE_DIR, else the system's for root and the user's own for
// others. Errors: kInvalidArgument when it cannot hold a socket (a path of a socket has at most 107 bytes) or is not
// absolute.
Result<std::string> own_state_dir(const std::string& given, const Surroundings& surroundings);
// For all other verbs: the same, but a user without an own Heddle uses the system's when there is one, or may be.
Result<std::string> used_state_dir(const std::string& given, const Surroundings& surroundings);

// Whether a folder holds the socket of a Heddle, as far as this user may know: kHidden when the folder is closed to
// them.
enum class Presence { kNone, kHidden, kThere };
Presence presence_of(const std::string& socket);

// The process of the daemon that has the folder's lock; empty when there is none, as far as this user may know. For
// where the socket is gone.
std::string serving_process(const StatePaths& paths);

// Makes the folder with this mode, or takes one that is there: one that Heddle kept its things in before, or an empty
// one of this user. Nothing else is touched: neither its mode nor what is in it.
// Errors: kInvalidArgument, naming --state-dir, for a folder with other things in it or of another user.
Result<void> take_state_dir(const std::string& folder, mode_t mode);

// Errors: kExhausted when the folder's file system has no room for what Heddle keeps in it.
Result<void> check_room(const std::string& folder, int64_t free_bytes);
Result<void> check_room(const std::string& folder);

// Taken while a daemon lives; the kernel gives it back however the daemon ends. Waits up to ten seconds for that where
// the daemon that holds it has ended already.
// Errors: kAlreadyExists when another daemon holds it, with its pid in the message.
Result<UniqueFd> lock_state_dir(const StatePaths& paths);

}  // namespace heddle::standalone
