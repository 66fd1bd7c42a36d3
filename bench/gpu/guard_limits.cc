// guard-limits DIR UUID MEMORY_BYTES CORES: the guard's two files for one card, for a check without an agent.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/file.h"
#include "guard/files.h"

int main(int count, char** words) {
  using namespace heddle;  // NOLINT(google-build-using-namespace): one function
  if (count != 5) {
    std::fprintf(stderr, "guard-limits DIR UUID MEMORY_BYTES CORES\n");
    return 1;
  }
  const std::string folder = words[1];
  guard::ClaimLimits limits{"check", "gpu", {{words[2], std::atoll(words[3]), std::atoi(words[4]), false, 0}}, {}, 0};
  const auto content = guard::encode_limits(limits);
  const bool done = content && remove_file(folder + "/usage") &&
                    write_file_atomic(folder + "/limits", *content, 0644) &&
                    guard::create_usage(folder + "/usage", limits).has_value();
  if (!done) std::fprintf(stderr, "guard-limits: cannot make the files in %s\n", folder.c_str());
  return done ? 0 : 3;
}
