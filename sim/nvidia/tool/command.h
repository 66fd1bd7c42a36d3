// What the tools that make simulated machines have in common: their command line, and how a file of state comes to be.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

namespace nvsim::tool {

inline constexpr int kUsage = 1;
inline constexpr int kError = 3;

struct Options {
  std::string verb;
  std::map<std::string, std::string> values;
};

inline std::optional<Options> parse(int count, char** arguments) {
  Options options;
  if (count < 2) {
    return std::nullopt;
  }
  options.verb = arguments[1];
  for (int index = 2; index + 1 < count; index += 2) {
    const std::string key = arguments[index];
    if (key != "--config" && key != "--root" && key != "--dev" && key != "--card" && key != "--kind" &&
        key != "--value" && key != "--template" && key != "--destroy") {
      return std::nullopt;
    }
    options.values[key.substr(2)] = arguments[index + 1];
  }
  const bool placed = options.values.contains("root") != options.values.contains("dev");
  return count % 2 == 0 && placed ? std::optional(options) : std::nullopt;
}

inline std::string folder_of(const Options& options) {
  const auto dev = options.values.find("dev");
  return dev != options.values.end() ? dev->second : options.values.at("root") + "/dev";
}

inline std::optional<std::int64_t> number_of(const Options& options, const std::string& key) {
  const auto found = options.values.find(key);
  std::int64_t value = 0;
  if (found == options.values.end()) {
    return std::nullopt;
  }
  const std::string& text = found->second;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Makes a new file beside, lets `fill` write its head, and renames it, so that nobody ever maps a half-made state.
template <typename State, typename Fill>
bool write_state(const std::string& path, Fill fill) {
  const std::string scratch = path + ".new";
  const int descriptor = ::open(scratch.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return false;
  }
  void* data = MAP_FAILED;
  // Like the device nodes: open to every user, whatever the umask says.
  if (fchmod(descriptor, 0666) == 0 && ftruncate(descriptor, sizeof(State)) == 0) {
    data = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  ::close(descriptor);
  if (data == MAP_FAILED) {
    return false;
  }
  fill(*static_cast<State*>(data));
  munmap(data, sizeof(State));
  return rename(scratch.c_str(), path.c_str()) == 0;
}

}  // namespace nvsim::tool
