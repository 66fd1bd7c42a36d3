// Which kinds of objects that say the size of a gang the API server serves, and lets us read.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/client.h"

namespace heddle::controller {

struct GangKind {
  std::string object_kind;  // "jobset.x-k8s.io/JobSet", as GangDeclaration::object begins
  std::string path;         // of all its objects
  friend bool operator==(const GangKind&, const GangKind&) = default;
};

struct GangKinds {
  std::vector<GangKind> readable;  // by object_kind
  std::set<std::string> denied;    // served, and we may not list them: kinds, or a group that may not even be asked for
};

// Asks the API server: PodGroups of scheduling.k8s.io, scheduling.volcano.sh and scheduling.x-k8s.io, JobSets, and
// every kind of kubeflow.org whose name ends with Job; of several versions the one that the API server names first.
// What is not served is simply not in the answer. A kind that is served and whose list fails in another way than by
// being forbidden counts as readable: whoever watches it waits until it can be read.
//
// `done` is called exactly once, on the client's I/O thread. Errors: those of the first request that could not be
// answered; then nothing is known. Cost: a request for each group, one for each served version, one for each kind.
void find_gang_kinds(kube::Client& client, std::function<void(Result<GangKinds>)> done);

}  // namespace heddle::controller
