// Annotations of a pod that change what its devices are: restrictions, modes, wishes, and what is none of our input.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "catalog/requests.h"
#include "dialects/family.h"
#include "dialects/selector.h"
#include "dialects/translate.h"

namespace heddle::dialects {

using Annotations = std::map<std::string, std::string>;

// True when a resource name stands among the annotations, where nobody reads it.
[[nodiscard]] bool has_misplaced_resource(const catalog::Requests& rules, const Annotations& annotations);

struct Wishes {
  Modes modes;        // but for one vendor's split
  std::string split;  // of the vendor with RequestVendor::mode
  std::string split_key;
  std::set<std::string> one_numa_node;  // vendors
};

// vendors: those that the pod asks for. Appends refusals and warnings.
Wishes read_annotations(const catalog::Requests& rules, const Annotations& annotations,
                        const std::set<std::string>& vendors, std::vector<Refusal>& refusals,
                        std::vector<std::string>& warnings);

// The restrictions by type and uuid for devices of a family; `own` are those of the family alone. For partitions the
// uuid is that of the card.
std::vector<Selector> restrictions(const catalog::RequestVendor& vendor, const catalog::Restrictions& own,
                                   const Annotations& annotations, Ask::Kind kind);

// One of them in words, for people.
std::string restriction_words(const Selector& selector);

// Annotations that allow one device only are refused beside more.
void check_chosen(const catalog::RequestVendor& vendor, const Annotations& annotations, const Ask& ask,
                  const std::string& container, std::vector<Refusal>& refusals);

}  // namespace heddle::dialects
