// Prepare and Unprepare as the kubelet asks for them, for a batch of claims: reads the claims from the API server,
// checks that the allocation may be carried out here, and hands each to the Preparer. Without gRPC.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/preparer.h"
#include "agent/record.h"
#include "agent/slices.h"
#include "base/log.h"
#include "model/claim.h"
#include "vendors/vendor.h"

namespace heddle::agent {

struct ClaimName {
  std::string name_space;
  std::string name;
  std::string uid;
};

struct PreparedDevice {
  std::string request;
  std::string pool;
  std::string device;
  std::string share_id;
  std::vector<std::string> cdi_ids;  // each id of a claim is given once
};

// What the node is now.
struct NodeCards {
  std::string node;
  std::vector<vendors::Card> cards;
  std::map<std::string, std::string> foreign;  // uuid -> who else serves it
  std::vector<Parts> parts = {};               // what is made of them on request
};

// The grant that an allocation means on this node. Errors: kConflict (other uid), kInvalidArgument (not allocated, not
// reserved, nothing of ours, another pool), kNotFound (no such card), kUnsupported (admin access; a partition and a
// card in one claim), kPermissionDenied (the card is served by someone else). `prepared`: cards that the claim holds
// already are not refused for their owner or health.
Result<ClaimRecord> grant_of(const model::ResourceClaim& claim, const std::string& uid, const NodeCards& node,
                             bool prepared);

std::vector<PreparedDevice> answer_of(const ClaimRecord& record);

// The claims, by the names of their objects, that a container of a pod uses.
struct ContainerClaims {
  std::string container;
  std::vector<std::string> claims;
};

// A container has one guard, with the limits of one claim. Errors: kUnsupported when some container uses `claim` and
// one of `others` as well; the limits of the one would hide those of the other.
Result<void> check_alone(const std::string& claim, const std::set<std::string>& others,
                         const std::vector<ContainerClaims>& containers);

using Claims = std::vector<Result<model::ResourceClaim>>;

struct ClaimServicePorts {
  // Reads all of them, together; the answers are in the order of the names.
  std::function<Claims(const std::vector<ClaimName>& names)> read;
  // Errors: kUnavailable while it is not known yet who else serves the cards; the kubelet asks again.
  std::function<Result<NodeCards>()> node;
  // Nothing when the pod is gone. Errors: kUnavailable.
  std::function<Result<std::vector<ContainerClaims>>(const std::string& name_space, const PodReference& pod)>
      containers;
};

// Thread rule: any thread, many at once.
class ClaimService {
 public:
  ClaimService(Preparer& preparer, ClaimServicePorts ports, const Logger& log)
      : preparer_(preparer), ports_(std::move(ports)), log_(log) {}

  // One result a claim, in order.
  std::vector<Result<std::vector<PreparedDevice>>> prepare(const std::vector<ClaimName>& names);
  std::vector<Result<void>> unprepare(const std::vector<ClaimName>& names);

 private:
  Result<std::vector<PreparedDevice>> prepare_one(const ClaimName& name, const Result<model::ResourceClaim>& claim,
                                                  const NodeCards& node, const std::vector<ClaimName>& batch);
  Result<void> check_containers(const ClaimRecord& grant, const std::vector<ClaimName>& batch) const;
  std::vector<ClaimName> drop_ended_claims(const ClaimRecord& wanted);

  Preparer& preparer_;
  const ClaimServicePorts ports_;
  const Logger& log_;
};

}  // namespace heddle::agent
