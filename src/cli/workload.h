// The pod templates inside workloads of any kind, found by their form and not by the kind's name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace heddle::cli {

struct PodTemplate {
  std::string at;    // a JSON pointer, "/spec/jobTemplate/spec/template"
  std::string path;  // "spec.jobTemplate.spec.template", for messages
  std::string role;  // what tells it from other templates of the same workload: "worker", "Master"; may be empty
};

// Everything under spec (and the template of a PodTemplate) whose name ends in "template" and that has a list
// spec.containers. In the order of the document.
std::vector<PodTemplate> find_pod_templates(const nlohmann::ordered_json& workload);

}  // namespace heddle::cli
