// heddle-oci-hook merge-preload GUARD-PRELOAD-FILE WORK-DIR: named by the CDI files of the agent, run by the container
// runtime for each container. Linked statically: it runs on nodes of any distribution.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "agent/preload_hook.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != "merge-preload") {
    std::fputs("usage: heddle-oci-hook merge-preload GUARD-PRELOAD-FILE WORK-DIR < OCI-STATE\n", stderr);
    return 1;
  }
  std::string state;
  std::array<char, 4096> buffer{};
  while (state.size() < (size_t{1} << 20)) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got <= 0) break;
    state.append(buffer.data(), static_cast<size_t>(got));
  }
  const heddle::Result<void> done = heddle::agent::run_preload_hook(state, argv[2], argv[3]);
  if (done) return 0;
  // The guard's own file is mounted already and stays: the container is guarded, and lacks the image's preloads. Better
  // than a container that cannot start.
  std::fprintf(stderr, "heddle-oci-hook: the image's own ld.so.preload is not merged: %s\n",
               done.error().text().c_str());
  return 0;
}
