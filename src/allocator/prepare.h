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
#include "allocator/selector.h"
#include "base/result.h"
#include "model/claim.h"

namespace heddle::allocator {

struct Options {
  // Added to the tolerations of each request when devices are picked, never written to a result.
  std::vector<model::Toleration> own_tolerations;
  // Taint keys that no toleration covers.
  std::vector<std::string> forbidden_taints;
};

// Which devices a request may take at all: selectors of class and request, and tolerations. Remembers its answers.
class Query {
 public:
  Query(std::vector<Selector> selectors, std::vector<model::Toleration> tolerations, std::vector<std::string> forbidden)
      : selectors_(std::move(selectors)), tolerations_(std::move(tolerations)), forbidden_(std::move(forbidden)) {}

  [[nodiscard]] bool matches(const DeviceInfo& device);
  [[nodiscard]] bool selects(const DeviceInfo& device) const;  // without taints
  void forget(uint32_t device_index);

 private:
  [[nodiscard]] bool taints_allow(const model::Device& device) const;

  enum class Answer : int8_t { kUnknown, kNo, kYes };
  std::vector<Selector> selectors_;
  std::vector<model::Toleration> tolerations_;
  std::vector<std::string> forbidden_;
  std::vector<Answer> answers_;  // by device index
};

// Queries by what they ask, so that the pods of one Deployment share one. Bounded.
class QueryCache {
 public:
  // Errors: as Selector::compile, naming class or request.
  Result<std::shared_ptr<Query>> get(const model::DeviceClass& device_class, const model::DeviceSubRequest& request,
                                     const Options& options);
  void forget_device(uint32_t device_index);
  void clear() { queries_.clear(); }

 private:
  std::unordered_map<std::string, std::shared_ptr<Query>> queries_;
};

// One way to serve a request: `exactly`, or one of firstAvailable.
struct Alternative {
  std::string result_name;  // "req" or "req/sub"
  const model::DeviceSubRequest* spec = nullptr;
  const model::DeviceClass* device_class = nullptr;
  std::shared_ptr<Query> query;
  bool all = false;
  int64_t count = 1;
  std::optional<int64_t> memory_percent;
  std::vector<uint32_t> constraints;  // of the claim, those that cover this alternative

  // What the request takes of devices of a shape; computed once a shape.
  Result<const Consumption*> consumption(const Shape& shape);

 private:
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
};

struct ClaimInput {
  std::string key;                         // for messages
  const model::ClaimSpec* spec = nullptr;  // borrowed, must outlive what is prepared from it
  // By request name or "request/subrequest": percent of a card's memory, from the ShareConfig of the claim.
  std::map<std::string, int64_t> memory_percent;
};

using ClassMap = std::map<std::string, model::DeviceClass>;

// The classes are borrowed too. Errors: kInvalidArgument or kUnsupported, naming claim and field.
Result<std::vector<PreparedClaim>> prepare(const std::vector<ClaimInput>& claims, const ClassMap& classes,
                                           QueryCache& cache, const Options& options);

inline constexpr size_t kMaxResults = 32;  // of one claim, as the API allows

}  // namespace heddle::allocator
