// One family of keys of one container -> one ask, by the rules that the catalogue has for the family.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalog/requests.h"
#include "dialects/amounts.h"
#include "dialects/claim_form.h"

namespace heddle::dialects {

// What the pod says besides resources, as far as it changes the meaning of amounts.
struct Modes {
  bool alone = false;     // no other tenant on the card (HAMi's policy "mutex")
  std::string alone_key;  // the annotation that says so, for messages
  std::string split;      // of NVIDIA's devices: "hami-core", "mig" or "mps"; empty: not said
  std::string split_key;
  const std::vector<catalog::ModelParts>* parts = nullptr;  // that "mig" can choose from
  std::vector<std::string> soft_split;  // annotations that say their soft split, see Family::soft_split_annotation
};

struct Understood {
  std::optional<Ask> ask;              // nothing: no device
  std::vector<std::string> remove;     // keys to take out of limits and requests
  std::string explanation;             // dialect, what was written, what it means
  std::vector<std::string> roundings;  // where it is not exactly what was asked, and why; for the claim and an event
  std::map<std::string, std::string> environment;  // variables of the container, unless it has them already
  std::vector<std::string> warnings;
};

// Appends to refusals what has no exact meaning; the answer counts only when nothing was appended.
Understood read_family(const catalog::Family& family, const Modes& modes, const AmountReader& reader);

// A key that names ready-made partitions.
Understood read_partition(const catalog::PartitionFamily& family, const std::string& key, const Modes& modes,
                          const AmountReader& reader);

// "1g.5gb.me" -> "1g.5gb+me"; nothing when the rule has no such name.
std::optional<std::string> partition_profile(const std::string& rule, std::string_view key, std::string_view prefix);

// "2 NVIDIA GPUs, whole", "a share of 1 NVIDIA GPU: 3000 MiB and 30 % of the compute".
std::string describe(const Ask& ask, std::string_view noun);

}  // namespace heddle::dialects
