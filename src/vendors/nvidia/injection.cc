#include "vendors/nvidia/injection.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/file.h"
#include "vendors/nvidia/paths.h"

namespace heddle::vendors::nvidia {
namespace {

constexpr std::array<std::string_view, 4> kControlNodes = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                                           "/dev/nvidia-modeset"};

// The libraries of the driver for compute, management and video, by the part of the name before ".so".
constexpr std::array<std::string_view, 16> kLibraries = {
    "libcuda",          "libnvidia-ml",     "libnvidia-ptxjitcompiler",  "libnvidia-nvvm",
    "libnvidia-nvvm70", "libcudadebugger",  "libnvidia-opencl",          "libnvidia-gpucomp",
    "libnvidia-cfg",    "libnvcuvid",       "libnvidia-encode",          "libnvidia-opticalflow",
    "libnvidia-nscq",   "libnvidia-pkcs11", "libnvidia-pkcs11-openssl3", "libnvidia-allocator"};

constexpr std::array<std::string_view, 3> kBinaries = {"nvidia-smi", "nvidia-cuda-mps-control",
                                                       "nvidia-cuda-mps-server"};

bool is_driver_library(std::string_view name) {
  const size_t so = name.find(".so");
  if (so == std::string_view::npos) return false;
  const std::string_view rest = name.substr(so + 3);
  if (!rest.empty() && rest.front() != '.') return false;
  return std::ranges::find(kLibraries, name.substr(0, so)) != kLibraries.end();
}

std::string host_path(const InjectionOptions& options, const std::string& path) {
  if (options.driver_root_on_host.empty()) return path;
  const std::string root = under(options.driver_root, "");
  return under(options.driver_root_on_host, path.substr(root.size()));
}

// Adds /dev/x as a device, or as a writable mount when a simulated driver keeps its state there.
Result<void> add_node(const InjectionOptions& options, const std::string& node, Injection& injection) {
  const std::string path = under(options.driver_root, node);
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return fail(Code::kNotFound, path + " does not exist");
  if (S_ISCHR(info.st_mode)) {
    injection.nodes.push_back({host_path(options, path), node});
    return {};
  }
  if (!S_ISREG(info.st_mode)) return fail(Code::kNotFound, path + " is neither a device nor a file");
  injection.mounts.push_back({host_path(options, path), node, false});
  return {};
}

// The first library folder that has libcuda.so.1, as a path below the root.
Result<std::string> library_folder(const InjectionOptions& options) {
  for (const std::string& folder : library_folders(options.driver_root)) {
    const std::string below = folder.substr(under(options.driver_root, "").size());
    if (resolve_under(options.driver_root, below + "/libcuda.so.1")) return below;
  }
  return fail(Code::kNotFound, "no libcuda.so.1 under " + options.driver_root);
}

Result<void> add_libraries(const InjectionOptions& options, Injection& injection) {
  HEDDLE_TRY(const std::string folder, library_folder(options));
  HEDDLE_TRY(const std::vector<std::string> names, list_directory(under(options.driver_root, folder)));
  for (const std::string& name : names) {
    if (!is_driver_library(name)) continue;
    // Each name that resolves is mounted under that name, so that sonames and versioned names both exist inside.
    const Result<std::string> target = resolve_under(options.driver_root, folder + "/" + name);
    if (target) injection.mounts.push_back({host_path(options, *target), options.library_dir + "/" + name, true});
  }
  return {};
}

void add_binaries(const InjectionOptions& options, Injection& injection) {
  for (const std::string_view name : kBinaries) {
    const Result<std::string> target = resolve_under(options.driver_root, fmt::format("/usr/bin/{}", name));
    if (!target) continue;
    injection.mounts.push_back({host_path(options, *target), fmt::format("{}/{}", options.binary_dir, name), true});
  }
}

}  // namespace

Result<Injection> common_injection(const InjectionOptions& options) {
  Injection injection;
  for (const std::string_view node : kControlNodes) {
    (void)add_node(options, std::string(node), injection);  // not every driver has every one
  }
  HEDDLE_CHECK_OK(add_libraries(options, injection));
  add_binaries(options, injection);
  // Keeps the vendor's own runtime, where it is the default one, from adding every card.
  injection.environment.emplace_back("NVIDIA_VISIBLE_DEVICES", "void");
  return injection;
}

Result<Injection> card_injection(const InjectionOptions& options, const Card& card) {
  Injection injection;
  HEDDLE_CHECK_OK(add_node(options, fmt::format("/dev/nvidia{}", card.minor), injection));
  return injection;
}

}  // namespace heddle::vendors::nvidia
