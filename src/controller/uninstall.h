// Taking Heddle out of a cluster so that nothing stays stuck: what has to be cleared, in order, and the clearing.
//
// The chart is removed after this (helm uninstall). Pods that run keep their devices until they end; the cluster's own
// claim controller frees those claims.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kube/client.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/pod.h"

namespace heddle::controller {

struct UninstallStep {
  std::string object;  // "pod default/web-0"
  std::string action;  // "remove the scheduling gate", for a person
  kube::Request request;
};

struct UninstallPlan {
  std::vector<UninstallStep> steps;  // in the order in which they must happen
  std::vector<std::string> remarks;  // what stays, and why
};

struct ClusterObjects {
  std::vector<model::Pod> pods;
  std::vector<model::ResourceClaim> claims;
  std::vector<model::ResourceSlice> slices;
  std::vector<std::string> webhook_configurations;  // paths of those that exist
};

// Pure. Webhooks first (else new pods are gated while this runs), then gates, claims that nobody runs on, slices.
UninstallPlan plan_uninstall(const ClusterObjects& objects);

// Reads what plan_uninstall needs, page by page. Blocks; errors are the client's.
Result<ClusterObjects> read_cluster(kube::Client& client);

// Carries the plan out; a step whose object is gone is done. Goes on after an error and returns the texts of all of
// them.
std::vector<std::string> carry_out(kube::Client& client, const UninstallPlan& plan);

}  // namespace heddle::controller
