// The extended resources of NVIDIA's device plugin and of HAMi for NVIDIA: nvidia.com/gpu, gpumem, gpumem-percentage,
// gpucores. Pure functions over what one container wrote.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/claim.h"

namespace heddle::dialects {

struct Refusal;

// A container's resources of the domain nvidia.com, as text of quantities.
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

// True for keys of resources and annotations that this dialect has to understand or refuse.
[[nodiscard]] bool is_nvidia_key(std::string_view key);

// Appends to refusals what has no exact meaning; the answer counts only when nothing was appended.
NvidiaAsk read_nvidia(const NvidiaResources& resources, std::vector<Refusal>& refusals);

// True when a resource name of this dialect stands among the annotations.
[[nodiscard]] bool has_misplaced_resource(const std::map<std::string, std::string>& annotations);

// Annotations of a pod that asks for NVIDIA devices: resource names in the wrong place, and restrictions that this
// version cannot hold yet are refused, never ignored. Unknown ones give a warning.
void check_nvidia_annotations(const std::map<std::string, std::string>& annotations, std::vector<Refusal>& refusals,
                              std::vector<std::string>& warnings);

}  // namespace heddle::dialects
