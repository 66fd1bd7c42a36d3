// The admission webhooks as pure functions: the text of an AdmissionReview in, its answer out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/catalog.h"
#include "controller/quota.h"
#include "model/claim.h"

namespace heddle::controller {

// What the functions know of the cluster besides the review.
struct AdmissionContext {
  std::shared_ptr<const catalog::Requests> rules;              // must be set
  std::shared_ptr<const QuotaTable> quotas;                    // may be null
  std::string controller_user;                                 // who may change what others may not; empty: nobody
  std::shared_ptr<const catalog::Catalog> hardware = nullptr;  // null: which slices are sold is not looked at
};

struct AdmissionAnswer {
  bool allowed = true;
  bool changed = false;
  std::string body;  // the AdmissionReview to send back
};

// Pods at CREATE: translates their requests, or refuses. Errors: kInvalidArgument when the text is no AdmissionReview.
Result<AdmissionAnswer> mutate(std::string_view review, const AdmissionContext& context);

// Pods (nothing untranslated at CREATE; request and gate unchanged at UPDATE), ResourceClaims and
// ResourceClaimTemplates (what they ask of our classes must be something that this version can mean), DeviceClasses
// (those that select our devices or configure our driver).
Result<AdmissionAnswer> validate(std::string_view review, const AdmissionContext& context);

// What cannot be meant in a claim on our classes, one line each with the field; empty: fine. A claim that asks nothing
// of our classes is fine. Which classes are ours is told by name here: "heddle" and "heddle-*".
std::vector<std::string> check_claim(const model::ClaimSpec& spec);

// The same for a DeviceClass that users wrote; one that says nothing of our driver is fine.
std::vector<std::string> check_class(const model::DeviceClass& device_class);

}  // namespace heddle::controller
