// Names of the objects that a translation makes. Every name is a DNS label of at most 63 characters, and two containers
// of one pod never get the same one.
#pragma once

#include <string>
#include <string_view>

namespace heddle::dialects {

// "heddle-<container>", the entry of pod.spec.resourceClaims.
std::string claim_ref_name(std::string_view container);

// "<pod>-<container>-<ten hex digits>", the ResourceClaim. pod: the pod's name or generateName (may be empty). The
// digits are the first ten of request_uid, or a hash of it when it has fewer.
std::string claim_object_name(std::string_view pod, std::string_view container, std::string_view request_uid);

// "<workload>-<container>", the ResourceClaimTemplate of a workload's pods.
std::string claim_template_name(std::string_view workload, std::string_view container);

// At most 63 characters of a-z, 0-9 and '-', alphanumeric at both ends.
[[nodiscard]] bool is_dns_label(std::string_view text);

}  // namespace heddle::dialects
