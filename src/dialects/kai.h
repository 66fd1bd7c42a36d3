// KAI-Scheduler's way to ask for a part of a GPU: annotations of the pod, no resources.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialects/annotations.h"
#include "dialects/claim_form.h"

namespace heddle::dialects {

// What KAI's annotations look at besides themselves.
struct KaiPod {
  std::vector<std::string> init_containers;  // names, in order
  std::vector<std::string> containers;
  std::string gpu_key;  // a resource above 0 by which some container asks for NVIDIA devices; empty: none does
};

struct KaiAsk {
  std::string container;
  Ask ask;
  std::string explanation;
  std::vector<std::string> warnings;
};

[[nodiscard]] bool has_kai_annotation(const Annotations& annotations);

// Nothing when no annotation asks for a part. Appends to refusals what has no exact meaning.
std::optional<KaiAsk> read_kai(const Annotations& annotations, const KaiPod& pod, std::vector<Refusal>& refusals);

}  // namespace heddle::dialects
