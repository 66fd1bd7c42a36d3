// What `heddle translate` prints, as a function: manifests in, a v1 List and explanations out. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace heddle::cli {

struct TranslatedList {
  std::string list_json;  // {"apiVersion":"v1","kind":"List","items":[workload, claims or templates...]}
  std::vector<std::string> explanations;  // for a person
  std::vector<std::string> refusals;      // not empty: the request would be refused, and the list is empty
};

// manifest: YAML or JSON, one or more documents: Pods, and workloads with a pod template. A pod comes out as the
// webhook would leave it, with the claims that the controller would create; a workload with ResourceClaimTemplates in
// place of them, so that each of its pods gets claims of its own without the webhook. Other kinds pass unchanged.
// Errors: kInvalidArgument when it is no such manifest.
Result<TranslatedList> translate_manifest(const std::string& manifest);

}  // namespace heddle::cli
