#include "vendors/nvidia/injection.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/file.h"
#include "vendors/paths.h"
#include "vendors/run_program.h"

namespace heddle::vendors::nvidia {
namespace {

constexpr std::array<std::string_view, 4> kControlNodes = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                                           "/dev/nvidia-modeset"};
// Without it cuInit fails. Its module is loaded, and the node made, by whoever uses CUDA first on the machine itself:
// on a freshly booted node nobody has. (NVML makes the others.)
constexpr std::string_view kUvmNode = "/dev/nvidia-uvm";
constexpr std::array<std::string_view, 3> kModprobe = {"/usr/bin/nvidia-modprobe", "/usr/sbin/nvidia-modprobe",
                                                       "/bin/nvidia-modprobe"};
constexpr Duration kModprobeTime = Duration::seconds(10);  // it loads a kernel module

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

// The minor number of a capability, from the kernel's list; below the driver's root for a simulated one.
Result<int64_t> capability_minor(const InjectionOptions& options, const std::string& capability) {
  const std::string list = "/proc/driver/nvidia-caps/mig-minors";
  Result<std::string> text = read_file(under(options.driver_root, list), size_t{4} << 20);
  if (!text) text = read_file(list, size_t{4} << 20);
  if (!text) return tl::unexpected(text.error());
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!line.starts_with(capability + " ")) continue;
    const std::string_view number = line.substr(capability.size() + 1);
    int64_t minor = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), minor);
    if (parsed.ec == std::errc()) return minor;
  }
  return fail(Code::kNotFound, fmt::format("{} does not name {}", list, capability));
}

// The nodes that let a process use a GPU instance and its compute instance.
Result<void> add_capabilities(const InjectionOptions& options, const Card& card, Injection& injection) {
  const std::string gpu = fmt::format("gpu{}/gi{}", card.minor, card.partition.gpu_instance);
  for (const std::string& owner : {gpu, fmt::format("{}/ci{}", gpu, card.partition.compute_instance)}) {
    HEDDLE_TRY(const int64_t minor, capability_minor(options, owner + "/access"));
    const std::string node = fmt::format("/dev/nvidia-caps/nvidia-cap{}", minor);
    HEDDLE_CHECK_OK(add_node(options, node, node, injection));
  }
  return {};
}

bool is_device(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
}

// A simulated driver has files for nodes, and only those that it uses.
bool is_real_driver(const InjectionOptions& options) {
  const std::string folder = under(options.driver_root, "/dev");
  const std::vector<std::string> names = list_directory(folder).value_or(std::vector<std::string>());
  return std::ranges::any_of(
      names, [&](const std::string& name) { return name.starts_with("nvidia") && is_device(folder + "/" + name); });
}

// The node of unified memory is there, or is made now by the driver's own program.
Result<void> ensure_uvm(const InjectionOptions& options) {
  const std::string node = under(options.driver_root, std::string(kUvmNode));
  if (is_device(node) || !is_real_driver(options)) return {};
  std::string why = "the driver's nvidia-modprobe, which makes it, is not there either";
  for (const std::string_view program : kModprobe) {
    if (!resolve_under(options.driver_root, std::string(program))) continue;
    const Result<void> ran = run_program(options.driver_root, {std::string(program), "-c0", "-u"}, kModprobeTime);
    if (is_device(node)) return {};
    why = ran ? fmt::format("{} -c0 -u did not make it", program) : ran.error().text();
    break;
  }
  return fail(
      Code::kNotFound,
      fmt::format("{} does not exist, and CUDA does not start without it: {}. Load the module nvidia-uvm on the "
                  "node (modprobe nvidia-uvm) and make the node (nvidia-modprobe -c0 -u), at each boot",
                  node, why));
}

}  // namespace

Result<Injection> common_injection(const InjectionOptions& options) {
  Injection injection;
  HEDDLE_CHECK_OK(ensure_uvm(options));
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
  if (card.partition.gpu_instance >= 0) {
    HEDDLE_CHECK_OK(add_capabilities(options, card, injection));
  }
  return injection;
}

}  // namespace heddle::vendors::nvidia
