#include "vendors/ascend/injection.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/file.h"
#include "vendors/paths.h"

namespace heddle::vendors::ascend {
namespace {

// Not every chip has every one.
constexpr std::array<std::string_view, 5> kControlNodes = {"/dev/devmm_svm", "/dev/hisi_hdc", "/dev/dvpp_cmdlist",
                                                           "/dev/uburma", "/dev/ummu"};
// Files and folders of the driver, under the same names in the container. (ascend-docker-runtime, base.list.)
constexpr std::array<std::string_view, 6> kDriverFiles = {"/usr/local/Ascend/driver/lib64",
                                                          "/usr/local/Ascend/driver/version.info",
                                                          "/usr/local/dcmi",
                                                          "/usr/local/bin/npu-smi",
                                                          "/etc/ascend_install.info",
                                                          "/var/queue_schedule"};

}  // namespace

Result<Injection> common_injection(const InjectionOptions& options) {
  Injection injection;
  // Some drivers have a manager of their own for containers.
  const std::string plain = "/dev/davinci_manager";
  if (!add_node(options, plain + "_docker", plain, injection)) {
    HEDDLE_CHECK_OK(add_node(options, plain, plain, injection));
  }
  for (const std::string_view node : kControlNodes) {
    (void)add_node(options, std::string(node), std::string(node), injection);
  }
  for (const std::string_view file : kDriverFiles) {
    const Result<std::string> target = resolve_under(options.driver_root, std::string(file));
    if (target) injection.mounts.push_back({host_path(options, *target), std::string(file), true});
  }
  return injection;
}

Result<Injection> card_injection(const InjectionOptions& options, const Card& card) {
  Injection injection;
  const int64_t vnpu = card.partition.gpu_instance;
  const std::string node = fmt::format("/dev/davinci{}", vnpu >= 0 ? vnpu : card.minor);
  // A vNPU has a node of its own, which the runtime in the container looks for among those of NPUs.
  HEDDLE_CHECK_OK(add_node(options, vnpu >= 0 ? fmt::format("/dev/vdavinci{}", vnpu) : node, node, injection));
  return injection;
}

}  // namespace heddle::vendors::ascend
