// `heddle up`: the daemon with its sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "standalone/machine.h"
#include "standalone/queue.h"

namespace heddle::standalone {

enum class Page { kDefaultPort, kPort, kOff };

struct UpOptions {
  MachineOptions machine;     // state_dir too
  std::string guard_library;  // libheddle_guard.so
  std::string group;          // its members may use the socket; empty: only this user and root
  Page page = Page::kDefaultPort;
  uint16_t page_port = 0;  // with kPort; 0: any free port
  QueueOptions queue;
  bool enforce = false;        // processes outside their shares are ended
  bool strict_shares = false;  // nothing of a card's time is lent
  int64_t crash_at_write = 0;  // for tests: the process kills itself at this point of the ledger (1, 2, ...)
  // The queues from now on, as JSON objects, none for no queues; nothing: as the ledger has them.
  std::optional<std::vector<std::string>> queues = {};
  Duration eviction_grace = Duration::seconds(30);  // of a job that gives way, between SIGTERM and SIGKILL
  std::string ascend_guard_library = {};            // libheddle_guard_ascend.so
};

inline constexpr uint16_t kDefaultPagePort = 7433;

struct Ready {
  std::string folder;
  std::string page_url;  // empty: off
  Machine machine;
};

// Runs until SIGTERM, SIGINT or `heddle down`. `ready` is called once requests are served. Commands go on after
// SIGTERM: the next `heddle up` takes them up again. Errors: kAlreadyExists when one runs here, kConflict when jobs of
// another machine are still live, kInvalidArgument for queues that cannot be used (those of before stay), and what
// find_machine says.
Result<void> serve(const UpOptions& options, const std::function<void(const Ready&)>& ready);

}  // namespace heddle::standalone
