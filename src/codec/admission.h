// AdmissionReviews as the API server sends them to a webhook.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle::codec {

// object and old_object are compact JSON texts, empty where there is none.
struct AdmissionReview {
  std::string uid;
  std::string operation;
  std::string kind;  // of the object
  std::string name_space;
  std::string user;
  std::string object;
  std::string old_object;
};

// Errors: kInvalidArgument, also for another kind than AdmissionReview, without a request, or without its uid. Cost:
// one parse (simdjson).
Result<AdmissionReview> parse_admission_review(std::string_view json);

}  // namespace heddle::codec
