// What `heddle translate` prints, as a function: manifests in, a v1 List and explanations out. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "catalog/requests.h"
#include "dialects/translate.h"

namespace heddle::cli {

struct TranslatedList {
  std::string list_json;  // {"apiVersion":"v1","kind":"List","items":[workload, its claims or templates, the next
                          // workload ...]}
  std::vector<std::string> explanations;  // for a person
  std::vector<std::string> refusals;      // not empty: the request would be refused, and the list is empty
};

// manifest: YAML or JSON, one or more documents: Pods, and workloads with pod templates anywhere under spec. A pod
// comes out as the webhook would leave it, with the claims that the controller would create; a workload with
// ResourceClaimTemplates in place of them, so that each of its pods gets claims of its own without the webhook. Other
// kinds pass unchanged. Errors: kInvalidArgument when it is no such manifest.
Result<TranslatedList> translate_manifest(const catalog::Requests& rules, const std::string& manifest,
                                          const dialects::TranslateOptions& options = {});

}  // namespace heddle::cli
