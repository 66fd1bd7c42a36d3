// The CDI specification of one claim: what a container runtime adds to the containers that use it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vendors/vendor.h"

namespace heddle::agent {

struct CdiGuard {
  std::string limits;        // host path of the file
  std::string usage;         // host path of the file
  std::string library_dir;   // host path of the folder that holds the guard
  std::string preload_file;  // host path of the file that becomes /etc/ld.so.preload
  std::string hook;          // host path of the program that merges an image's own ld.so.preload; empty: none
  std::string work_dir;      // host folder where the hook may write
};

struct CdiRequest {
  std::string name;              // of the request
  vendors::Injection injection;  // of its cards
};

struct CdiClaim {
  std::string uid;
  std::vector<CdiRequest> requests;
  vendors::Injection common;      // once a container, whatever it uses of the claim
  std::optional<CdiGuard> guard;  // absent for whole cards
};

// "<claim uid>-<request>", with what CDI does not allow replaced.
std::string cdi_device_name(const std::string& claim_uid, const std::string& request);
// "heddle.dev/claim=<name>"
std::string cdi_device_id(const std::string& claim_uid, const std::string& request);
// "<root>/heddle.dev-claim-<uid>.json"
std::string cdi_file(const std::string& cdi_root, const std::string& claim_uid);

// The same input gives the same text.
std::string cdi_json(const CdiClaim& claim);

}  // namespace heddle::agent
