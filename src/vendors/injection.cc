#include "vendors/injection.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "vendors/ascend/injection.h"
#include "vendors/nvidia/injection.h"
#include "vendors/paths.h"

namespace heddle::vendors {

Result<Injection> common_injection(std::string_view vendor, const InjectionOptions& options) {
  if (vendor == "nvidia") return nvidia::common_injection(options);
  if (vendor == "ascend") return ascend::common_injection(options);
  return fail(Code::kUnsupported, fmt::format("cards of '{}' cannot be given to containers", vendor));
}

Result<Injection> card_injection(std::string_view vendor, const InjectionOptions& options, const Card& card) {
  if (vendor == "nvidia") return nvidia::card_injection(options, card);
  if (vendor == "ascend") return ascend::card_injection(options, card);
  return fail(Code::kUnsupported, fmt::format("cards of '{}' cannot be given to containers", vendor));
}

Environment visible_cards(std::string_view vendor, const std::vector<Card>& cards, Spread spread) {
  std::string list;
  for (const Card& card : cards) {
    if (!list.empty()) list += ',';
    const int64_t number = card.partition.gpu_instance >= 0 ? card.partition.gpu_instance : card.minor;
    list += vendor == "nvidia" ? card.uuid : std::to_string(number);
  }
  // A uuid that a container cannot see would hide those behind it.
  if (vendor == "nvidia" && spread == Spread::kEverywhere) return {{"CUDA_VISIBLE_DEVICES", list}};
  // Read by the vendor's own container runtime, where it is the default one: a value of the tenant's must not widen it.
  if (vendor == "ascend") {
    const bool virtual_ones =
        std::ranges::any_of(cards, [](const Card& card) { return card.partition.gpu_instance >= 0; });
    Environment variables = {{"ASCEND_VISIBLE_DEVICES", list}};
    if (virtual_ones) variables.emplace_back("ASCEND_RUNTIME_OPTIONS", "VIRTUAL");
    return variables;
  }
  return {};
}

std::string host_path(const InjectionOptions& options, const std::string& path) {
  if (options.driver_root_on_host.empty()) return path;
  const std::string root = under(options.driver_root, "");
  return under(options.driver_root_on_host, path.substr(root.size()));
}

std::string seen_path(const InjectionOptions& options, const std::string& path) {
  return options.driver_root_on_host == "/" ? under(options.driver_root, path) : path;
}

Result<void> add_node(const InjectionOptions& options, const std::string& host, const std::string& inside,
                      Injection& injection) {
  const std::string path = under(options.driver_root, host);
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return fail(Code::kNotFound, path + " does not exist");
  if (S_ISCHR(info.st_mode)) {
    injection.nodes.push_back({host_path(options, path), inside});
    return {};
  }
  if (!S_ISREG(info.st_mode)) return fail(Code::kNotFound, path + " is neither a device nor a file");
  injection.mounts.push_back({host_path(options, path), inside, false});
  return {};
}

}  // namespace heddle::vendors
