// Claims made ready for the search: classes looked up, selectors compiled, names and limits checked. Once for all
// nodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocator/capacity.h"
#include "allocator/device.h"
#include "allocator/features.h"
#include "allocator/query.h"
#include "base/result.h"
#include "model/claim.h"

namespace heddle::allocator {

// How an object that the API server has not defaulted or refused is read.
enum class Defaults {
  kApply,  // count 1, mode ExactCount
  kNone,   // what is absent is zero, as the upstream allocator has it
};

struct Options {
  Features features;
  SelectorErrors selector_errors = SelectorErrors::kDoNotMatch;
  Defaults defaults = Defaults::kApply;
  // Added to the tolerations of each request when devices are picked, never written to a result.
  std::vector<model::Toleration> own_tolerations;
  // Taint keys that no toleration covers.
  std::vector<std::string> forbidden_taints;
};

// One way to serve a request: `exactly`, or one of firstAvailable.
struct Alternative {
  std::string name;         // "req" or "sub"
  std::string result_name;  // "req" or "req/sub"
  const model::DeviceSubRequest* spec = nullptr;
  const model::DeviceClass* device_class = nullptr;
  std::shared_ptr<Query> query;
  bool all = false;
  int64_t count = 1;
  std::optional<int64_t> memory_percent;
  std::string needs;                  // of the conditions of its ClaimInput, in words; empty: there are none
  std::vector<uint32_t> constraints;  // of the claim, those that cover this alternative
  Features features;
  QueryCache* cache = nullptr;  // borrowed, evaluates derived attributes

  // What the request takes of devices of a shape; computed once a shape. Errors: as consume().
  Result<const Consumption*> consumption(const Shape& shape) {
    if (shape.id < by_shape_.size() && by_shape_[shape.id]) return by_shape_[shape.id].get();
    return compute(shape);
  }

 private:
  Result<const Consumption*> compute(const Shape& shape);

  std::vector<std::unique_ptr<Consumption>> by_shape_;
};

struct PreparedRequest {
  const model::DeviceRequest* spec = nullptr;
  std::vector<Alternative> alternatives;
};

struct PreparedClaim {
  std::string key;
  const model::ClaimSpec* spec = nullptr;
  std::vector<PreparedRequest> requests;
  std::vector<std::shared_ptr<AttributeColumn>> columns = {};  // by constraint: the attribute that it compares
};

struct Condition {
  std::string selector;  // CEL
  std::string need;      // in words, for explanations
};

struct ClaimInput {
  std::string key;                         // for messages
  const model::ClaimSpec* spec = nullptr;  // borrowed, must outlive what is prepared from it
  // By request name or "request/subrequest": percent of a card's memory, from the ShareConfig of the claim.
  std::map<std::string, int64_t> memory_percent;
  // By the same names: what else a device must be, since the configuration of the claim needs it.
  std::map<std::string, std::vector<Condition>> conditions = {};
};

using ClassMap = std::map<std::string, model::DeviceClass>;

// The classes are borrowed too. Errors: kInvalidArgument or kUnsupported, naming claim, request and field.
Result<std::vector<PreparedClaim>> prepare(const std::vector<ClaimInput>& claims, const ClassMap& classes,
                                           QueryCache& cache, const Options& options);

inline constexpr size_t kMaxResults = 32;  // of one claim, as the API allows

// "claim a, request r", as messages name it.
std::string place_text(const std::string& claim_key, const Alternative& alternative);

}  // namespace heddle::allocator
