// Requests as users write them -> claims as the engine understands them. Pure: object in, patch and claims or a refusal
// out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/claim.h"

namespace heddle::catalog {
class Requests;
}

namespace heddle::dialects {

// What one container asked for, in canonical form; the annotation heddle.dev/request is the JSON array of these.
struct ContainerRequest {
  std::string container;
  bool init = false;
  std::string claim_ref;   // name in pod.spec.resourceClaims
  std::string claim_name;  // name of the ResourceClaim object that the controller creates
  model::ClaimSpec spec;
  // What the hardware forces beside what was asked, "5000 MiB asked, 8192 MiB granted, ..."; for the claim and an
  // event.
  std::vector<std::string> roundings = {};
};

struct Refusal {
  std::string field;    // spec.containers[0].resources.limits[nvidia.com/gpumem]
  std::string message;  // what was asked, why it has no exact meaning, what to write instead
};

struct Translation {
  bool changed = false;
  std::string json_patch;  // RFC 6902 array; empty when !changed
  std::vector<ContainerRequest> requests;
  std::vector<std::string> explanations;  // one line a request: dialect, what was written, what it means, roundings
  std::vector<std::string> warnings;
  std::vector<Refusal> refusals;  // not empty: refuse, and nothing else above counts
};

struct TranslateOptions {
  // Pods with the label hami.io/webhook: ignore ask other schedulers for their devices; they are left alone unless
  // told.
  bool translate_ignored = false;
};

// pod_json: a whole Pod object. request_uid: of the AdmissionReview; claim names are made from it, so that the same
// review gives the same names; names found in pod.spec.resourceClaims from an earlier pass are kept. Errors:
// kInvalidArgument when the JSON is not a pod at all. Cost: well below a millisecond for a pod of 8 containers.
Result<Translation> translate_pod(const catalog::Requests& rules, std::string_view pod_json,
                                  std::string_view request_uid, const TranslateOptions& options = {});

// True for a pod, by its labels, that translate_pod leaves alone without being told otherwise.
[[nodiscard]] bool is_ignored(const std::map<std::string, std::string>& labels);

// The canonical form of heddle.dev/request, both ways. The controller validates with parse_requests what it finds on a
// pod.
std::string requests_json(const std::vector<ContainerRequest>& requests);
Result<std::vector<ContainerRequest>> parse_requests(std::string_view json);

}  // namespace heddle::dialects
