// The claims that translations make: a closed set of forms, both ways. What a user writes into heddle.dev/request by
// hand must be one of them, so it is never worth more than the resources that the same user may write in a container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialects/selector.h"
#include "model/claim.h"

namespace heddle::dialects {

// Whether it can be a word of the `vendor` attribute: the catalogue's vendors, and those that an administrator adds. A
// device class heddle-<word> goes with each.
[[nodiscard]] bool is_vendor(std::string_view word);

// One request of a claim: devices of one kind.
struct Ask {
  enum class Kind {
    kWhole,      // the card and everything of it
    kShare,      // a part of the card; the card may have other tenants
    kPartition,  // a hard part, by its profile
    kTemplate,   // a hard part that memory was rounded up to; named by the template and by its memory
  };
  std::string name = "gpu";  // of the request
  std::string vendor;        // "nvidia"; empty: any device of ours
  Kind kind = Kind::kWhole;
  int64_t count = 1;
  int64_t memory_mib = 0;           // per device; 0: not named; of a template: its own
  int64_t percent = 0;              // of each device's memory, 1..99; 0: not named
  int64_t cores = 0;                // percent of each device; a share always names them
  bool different_cards = false;     // of partitions; several shares always are of different cards
  std::vector<Selector> selectors;  // beside those that the kind implies
  // False for what the webhook of 0.1 wrote, when all devices were cards; read, and never written anew.
  bool says_kind = true;
  bool gives_way = false;  // to tenants of the card that do not; of shares
  bool mps = false;        // NVIDIA's MPS holds the cores, of which there are 1 to 99; of shares
  friend bool operator==(const Ask&, const Ask&) = default;
};

struct ClaimForm {
  std::vector<Ask> asks;
  bool one_numa_node = false;  // all devices of the claim
  friend bool operator==(const ClaimForm&, const ClaimForm&) = default;
};

[[nodiscard]] model::ClaimSpec claim_spec(const ClaimForm& form);
// The inverse. Errors: kInvalidArgument for a claim that claim_spec does not make, to the letter, or that asks for
// more than limits allow.
Result<ClaimForm> read_claim_form(const model::ClaimSpec& spec);

inline constexpr int64_t kMaxDevices = 32;        // results of one ResourceClaim
inline constexpr int64_t kMaxUnits = 2147483647;  // what an int32 of the tools that the names come from can hold
inline constexpr size_t kMaxSelectorText = 8192;  // of one selector; the API server's limit is 10240

}  // namespace heddle::dialects
