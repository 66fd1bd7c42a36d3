#include "vendors/nvidia/injection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/file.h"
#include "vendors/paths.h"

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

// The first library folder that has libcuda.so.1, as a path below the root.
Result<std::string> library_folder(const InjectionOptions& options) {
  for (const std::string& folder : library_folders(options.driver_root)) {
    std::string below = folder.substr(under(options.driver_root, "").size());
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
    const Result<std::string> target = resolve_under(options.driver_root, fmt::format("{}/{}", folder, name));
    if (!target) continue;
    injection.mounts.push_back({host_path(options, *target), fmt::format("{}/{}", options.library_dir, name), true});
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
    (void)add_node(options, std::string(node), std::string(node), injection);  // not every driver has every one
  }
  HEDDLE_CHECK_OK(add_libraries(options, injection));
  add_binaries(options, injection);
  // Keeps the vendor's own runtime, where it is the default one, from adding every card.
  injection.environment.emplace_back("NVIDIA_VISIBLE_DEVICES", "void");
  return injection;
}

Result<Injection> card_injection(const InjectionOptions& options, const Card& card) {
  Injection injection;
  const std::string node = fmt::format("/dev/nvidia{}", card.minor);
  HEDDLE_CHECK_OK(add_node(options, node, node, injection));
  return injection;
}

}  // namespace heddle::vendors::nvidia
