// Which devices a request may take at all: the CEL selectors of class and request, and tolerations.
//
// Thread rule: one thread at a time for a cache and its queries (they share an evaluator and remember answers).
// Cost: a selector is evaluated once per device and query; the answers are remembered until the device is forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocator/device.h"
#include "base/result.h"
#include "cel/program.h"
#include "model/claim.h"

namespace heddle::allocator {

// A selector that fails on a device, such as one that reads an attribute the device does not have.
enum class SelectorErrors {
  kDoNotMatch,  // the device is not taken, and Query::trouble() says why
  kAbort,       // ends the allocation when the search comes to that device, as upstream
};

// A compiled selector or why it cannot be compiled.
struct CompiledSelector {
  std::shared_ptr<const cel::Program> program;  // null: error
  Error error;
};

class Query {
 public:
  struct Part {
    std::string device_class;  // empty: a selector of the request
    size_t index = 0;
    CompiledSelector selector;
  };

  Query(std::vector<Part> parts, std::vector<model::Toleration> tolerations, std::vector<std::string> forbidden_taints,
        std::shared_ptr<cel::Evaluator> evaluator);

  enum class Answer : uint8_t { kUnknown, kNo, kYes, kError };

  // What the selectors say.
  [[nodiscard]] Answer answer(const DeviceInfo& device) {
    const Answer known = device.index < known_.size() ? known_[device.index].selected : Answer::kUnknown;
    return known == Answer::kUnknown ? ask(device) : known;
  }
  [[nodiscard]] bool selects(const DeviceInfo& device) { return answer(device) == Answer::kYes; }
  [[nodiscard]] bool taints_allow(const DeviceInfo& device) {
    if (!device.has_taints) return true;
    const Answer known = device.index < known_.size() ? known_[device.index].taints : Answer::kUnknown;
    return known == Answer::kUnknown ? ask_taints(device) : known == Answer::kYes;
  }
  [[nodiscard]] bool matches(const DeviceInfo& device) { return selects(device) && taints_allow(device); }
  // Why answer() is kError: "class c: selector #0 on device d/p/n: CEL runtime error: ...", with `claim` in front for a
  // selector of the request.
  [[nodiscard]] Error explain(const DeviceInfo& device, const std::string& claim);
  // The first selector that cannot be compiled.
  [[nodiscard]] const Part* broken() const;
  // What went wrong first in evaluations; empty: nothing.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  void forget(uint32_t device_index);
  // Devices that an answer is remembered for.
  [[nodiscard]] size_t remembered() const { return known_.size(); }
  // Bytes of its selectors.
  [[nodiscard]] size_t text_size() const;

 private:
  struct Failure {
    const Part* part = nullptr;
    Error error;
  };
  struct Known {
    Answer selected = Answer::kUnknown;
    Answer taints = Answer::kUnknown;  // kYes: they allow it
  };
  Result<bool> evaluate(const DeviceInfo& device, Failure& failure) const;
  [[nodiscard]] Answer ask(const DeviceInfo& device);
  [[nodiscard]] bool ask_taints(const DeviceInfo& device);
  [[nodiscard]] bool tolerated(const model::Taint& taint) const;
  Known& known(const DeviceInfo& device);

  std::vector<Part> parts_;
  std::vector<model::Toleration> tolerations_;
  std::vector<std::string> forbidden_taints_;
  std::shared_ptr<cel::Evaluator> evaluator_;
  std::vector<Known> known_;  // by device index
  std::string trouble_;
};

// The attribute of one name by device: looked up once, remembered until the device is forgotten.
class AttributeColumn {
 public:
  explicit AttributeColumn(std::string name) : name_(std::move(name)) {}

  // Null: the device has no such attribute.
  [[nodiscard]] const model::AttributeValue* find(const DeviceInfo& device) {
    if (device.index < known_.size() && known_[device.index] != &unknown_) return known_[device.index];
    return look_up(device);
  }
  void forget(uint32_t device_index) {
    if (device_index < known_.size()) known_[device_index] = &unknown_;
  }
  [[nodiscard]] size_t remembered() const { return known_.size(); }

 private:
  const model::AttributeValue* look_up(const DeviceInfo& device);

  std::string name_;
  model::AttributeValue unknown_;                    // its address marks what was not looked up yet
  std::vector<const model::AttributeValue*> known_;  // by device index
};

struct Options;

// Queries by what they ask, so that the pods of one Deployment share one. Bounded in number, in text and in answers.
class QueryCache {
 public:
  QueryCache();

  std::shared_ptr<Query> get(const model::DeviceClass& device_class, const model::DeviceSubRequest& request,
                             const Options& options);
  std::shared_ptr<AttributeColumn> column(const std::string& name);
  // The value of a derived attribute on a device. Errors: kInvalidArgument, in compilation or evaluation.
  Result<model::AttributeValue> derive(const std::string& expression, const DeviceInfo& device);
  void forget_device(uint32_t device_index);
  // Forgets the queries, since classes have changed.
  void clear();

  struct Sizes {
    size_t programs = 0;
    size_t program_text = 0;  // bytes of their expressions
    size_t queries = 0;
    size_t query_text = 0;  // bytes of their selectors
    size_t columns = 0;
  };
  [[nodiscard]] Sizes sizes() const;

 private:
  CompiledSelector compile(const std::string& expression, cel::Purpose purpose);

  cel::Environment environment_;
  std::shared_ptr<cel::Evaluator> evaluator_;
  std::unordered_map<std::string, CompiledSelector> selectors_;
  std::unordered_map<std::string, CompiledSelector> derived_;
  std::unordered_map<std::string, std::shared_ptr<Query>> queries_;
  std::unordered_map<std::string, std::shared_ptr<AttributeColumn>> columns_;
  size_t program_text_ = 0;
  size_t query_text_ = 0;
};

// "driver/pool/device"
std::string device_text(const DeviceInfo& device);

}  // namespace heddle::allocator
