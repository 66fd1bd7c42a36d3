// Everything that one container asks for, in any number of dialects, as one claim.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/requests.h"
#include "dialects/amounts.h"
#include "dialects/annotations.h"
#include "dialects/claim_form.h"

namespace heddle::dialects {

// The name that Kubernetes gives each DeviceClass as an extended resource.
inline constexpr std::string_view kClassResource = "deviceclass.resource.kubernetes.io/";

// True for resources that ask for a device of ours: they are understood or refused, never left to others.
[[nodiscard]] bool asks_for_device(const catalog::Requests& rules, std::string_view resource);

// The vendors that these resources name; "" for any device of ours.
[[nodiscard]] std::set<std::string> vendors_of(const catalog::Requests& rules, const Resources& resources);

struct ContainerAsk {
  ClaimForm form;                         // no asks: no device
  std::vector<std::string> remove;        // keys to take out of limits and requests
  std::vector<std::string> explanations;  // one a request
  std::vector<std::string> roundings;
  std::map<std::string, std::string> environment;  // variables of the container, unless it has them already
  std::vector<std::string> warnings;
};

// Appends to refusals what has no exact meaning; the answer counts only when nothing was appended.
ContainerAsk read_container(const catalog::Requests& rules, const Resources& resources, const Annotations& annotations,
                            const Wishes& wishes, std::vector<Refusal>& refusals);

// Restrictions of the pod for an ask that no resource made (KAI).
void restrict(const catalog::Requests& rules, const Annotations& annotations, const Wishes& wishes, Ask& ask);

}  // namespace heddle::dialects
