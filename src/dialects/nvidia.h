// The extended resources of NVIDIA's device plugin and of HAMi for NVIDIA: nvidia.com/gpu, gpumem, gpumem-percentage,
// gpucores. Pure functions over what one container wrote.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/claim.h"

namespace heddle::dialects {

struct Refusal;

// A container's resources of this dialect, as text of quantities.
struct NvidiaResources {
  std::string path;  // of the container's resources, "spec.containers[0].resources"
  std::map<std::string, std::string> limits;
  std::map<std::string, std::string> requests;
};

struct NvidiaAsk {
  std::optional<model::ClaimSpec> spec;  // nothing: the container asks for no device
  std::vector<std::string> remove;       // keys to take out of limits and requests
  std::string explanation;
  std::vector<std::string> warnings;
};

// True for resources that ask for a card: this dialect has to understand or refuse them. Other resources of the domain
// (nvidia.com/hostdev, nvidia.com/pgpu ...) belong to other plugins.
[[nodiscard]] bool is_nvidia_resource(std::string_view key);

// What a claim of this dialect asks for, per card but for the count; 0: not named.
struct NvidiaAmounts {
  int64_t count = 1;
  int64_t memory_mib = 0;
  int64_t percent = 0;
  int64_t cores = 0;
  friend bool operator==(const NvidiaAmounts&, const NvidiaAmounts&) = default;
};
// Amounts as read_nvidia allows them -> the claim that stands for them.
[[nodiscard]] model::ClaimSpec nvidia_spec(const NvidiaAmounts& amounts);
// The other way; nothing for a claim that nvidia_spec does not make, to the letter.
[[nodiscard]] std::optional<NvidiaAmounts> nvidia_amounts(const model::ClaimSpec& spec);

// Appends to refusals what has no exact meaning; the answer counts only when nothing was appended.
NvidiaAsk read_nvidia(const NvidiaResources& resources, std::vector<Refusal>& refusals);

// True when a resource name of this dialect stands among the annotations.
[[nodiscard]] bool has_misplaced_resource(const std::map<std::string, std::string>& annotations);

// Annotations of a pod that asks for NVIDIA devices: resource names in the wrong place, and restrictions that this
// version cannot hold yet are refused, never ignored. Unknown ones give a warning.
void check_nvidia_annotations(const std::map<std::string, std::string>& annotations, std::vector<Refusal>& refusals,
                              std::vector<std::string>& warnings);

}  // namespace heddle::dialects
