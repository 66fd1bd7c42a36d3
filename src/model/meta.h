// What every Kubernetes object carries, as far as Heddle reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace heddle::model {

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  friend bool operator==(const OwnerReference&, const OwnerReference&) = default;
};

struct ObjectMeta {
  std::string name_space;  // empty for cluster-scoped objects
  std::string name;
  std::string uid;
  std::string resource_version;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<OwnerReference> owners;
  std::vector<std::string> finalizers;
  Time created;
  bool deleting = false;  // deletionTimestamp is set

  // "namespace/name", or the name alone.
  [[nodiscard]] std::string key() const { return name_space.empty() ? name : name_space + "/" + name; }
};

// A label selector requirement; also one match expression of a node selector term.
struct Requirement {
  enum class Operator { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };
  std::string key;
  Operator op = Operator::kIn;
  std::vector<std::string> values;
  friend bool operator==(const Requirement&, const Requirement&) = default;
};

struct NodeSelectorTerm {
  std::vector<Requirement> match_expressions;  // on labels
  std::vector<Requirement> match_fields;       // on metadata.name only
  friend bool operator==(const NodeSelectorTerm&, const NodeSelectorTerm&) = default;
};

// Terms are alternatives; requirements inside one term must all hold. No terms: matches nothing.
struct NodeSelector {
  std::vector<NodeSelectorTerm> terms;
  friend bool operator==(const NodeSelector&, const NodeSelector&) = default;
};

struct Toleration {
  std::string key;
  std::string op;  // "Exists", "Equal" or empty (Equal)
  std::string value;
  std::string effect;  // empty: all effects
  std::optional<int64_t> seconds;
  friend bool operator==(const Toleration&, const Toleration&) = default;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute, None
  std::optional<Time> added;
  friend bool operator==(const Taint&, const Taint&) = default;
};

// True when the toleration covers the taint, by the rules of core/v1 (and resource.k8s.io/v1, which are the same).
bool tolerates(const Toleration& toleration, const Taint& taint);

}  // namespace heddle::model
