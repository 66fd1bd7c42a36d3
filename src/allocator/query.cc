#include "allocator/query.h"

#include <algorithm>

#include "allocator/prepare.h"
#include "base/key_text.h"

namespace heddle::allocator {
namespace {

// What is remembered, at most; one more, and all of its kind is forgotten. A compiled expression takes some hundred
// times its text.
constexpr size_t kMaxQueries = 4096;
constexpr size_t kMaxPrograms = 4096;
constexpr size_t kMaxColumns = 256;
constexpr size_t kCountedEvery = 64;                   // queries, since counting takes time
constexpr size_t kMaxText = size_t{1} << 20;           // of all programs, and of all queries
constexpr size_t kMaxAnswers = size_t{32} << 20;       // of all queries
constexpr size_t kMaxColumnEntries = size_t{8} << 20;  // of all columns

std::string query_key(const model::DeviceClass& device_class, const model::DeviceSubRequest& request) {
  std::string key;
  append_part(key, device_class.meta.name);
  append_parts(key, request.selectors);
  for (const model::Toleration& toleration : request.tolerations) {
    append_part(key, toleration.key);
    append_part(key, toleration.op);
    append_part(key, toleration.value);
    append_part(key, toleration.effect);
  }
  return key;
}

// Calls with the device as selectors see it.
template <typename Call>
auto with_view(const DeviceInfo& device, Call call) {
  const PublishedDevice& published = *device.published;
  const cel::DeviceView view(*device.device, device.pool->driver, published.shared->own_names, published.own);
  return call(view);
}

// The error with upstream's hint.
std::string runtime_text(const Error& error) {
  std::string text = "CEL runtime error: " + error.message;
  if (error.message.find("no such key:") != std::string::npos) {
    text +=
        ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
        "optional fields";
  }
  return text;
}

}  // namespace

std::string device_text(const DeviceInfo& device) {
  return device.pool->driver + "/" + device.pool->name + "/" + device.name();
}

Query::Query(std::vector<Part> parts, std::vector<model::Toleration> tolerations,
             std::vector<std::string> forbidden_taints, std::shared_ptr<cel::Evaluator> evaluator)
    : parts_(std::move(parts)),
      tolerations_(std::move(tolerations)),
      forbidden_taints_(std::move(forbidden_taints)),
      evaluator_(std::move(evaluator)) {}

Query::Known& Query::known(const DeviceInfo& device) {
  if (device.index >= known_.size()) known_.resize(device.index + 1);
  return known_[device.index];
}

bool Query::tolerated(const model::Taint& taint) const {
  if (std::find(forbidden_taints_.begin(), forbidden_taints_.end(), taint.key) != forbidden_taints_.end()) return false;
  if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") return true;
  return std::any_of(tolerations_.begin(), tolerations_.end(),
                     [&](const model::Toleration& toleration) { return model::tolerates(toleration, taint); });
}

bool Query::ask_taints(const DeviceInfo& device) {
  const std::vector<model::Taint>& taints = device.device->taints;
  const bool all =
      std::all_of(taints.begin(), taints.end(), [&](const model::Taint& taint) { return tolerated(taint); });
  known(device).taints = all ? Answer::kYes : Answer::kNo;
  return all;
}

Result<bool> Query::evaluate(const DeviceInfo& device, Failure& failure) const {
  return with_view(device, [&](const cel::DeviceView& view) -> Result<bool> {
    for (const Part& part : parts_) {
      auto matched = part.selector.program ? evaluator_->matches(*part.selector.program, view)
                                           : Result<bool>(tl::unexpected<Error>(part.selector.error));
      if (!matched) failure = {&part, matched.error()};
      if (!matched || !*matched) return matched;
    }
    return true;
  });
}

Query::Answer Query::ask(const DeviceInfo& device) {
  Answer& answer = known(device).selected;
  Failure failure;
  const auto matched = evaluate(device, failure);
  answer = !matched ? Answer::kError : *matched ? Answer::kYes : Answer::kNo;
  if (!matched && trouble_.empty()) trouble_ = device_text(device) + ": " + failure.error.message;
  return answer;
}

Error Query::explain(const DeviceInfo& device, const std::string& claim) {
  Failure failure;
  const auto matched = evaluate(device, failure);
  if (matched) return Error{Code::kInternal, "a selector gave two answers for " + device_text(device), {}};
  const Part& part = *failure.part;
  std::string text = part.device_class.empty() ? "claim " + claim : "class " + part.device_class;
  text += ": selector #" + std::to_string(part.index);
  text += part.selector.program ? " on device " + device_text(device) + ": " + runtime_text(failure.error)
                                : ": CEL compile error: " + failure.error.message;
  return Error{Code::kInvalidArgument, std::move(text), {}};
}

const Query::Part* Query::broken() const {
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.selector.program == nullptr; });
  return found == parts_.end() ? nullptr : &*found;
}

size_t Query::text_size() const {
  size_t size = 0;
  for (const Part& part : parts_) size += part.selector.program ? part.selector.program->expression().size() : 0;
  return size;
}

void Query::forget(uint32_t device_index) {
  if (device_index < known_.size()) known_[device_index] = {};
}

// Everything that was ever allowed in an expression: what is stored must go on working when a gate is turned off.
QueryCache::QueryCache()
    : environment_({.mode = cel::Mode::kStored, .consumable_capacity = true, .list_attributes = true}),
      evaluator_(std::make_shared<cel::Evaluator>()) {}

CompiledSelector QueryCache::compile(const std::string& expression, cel::Purpose purpose) {
  auto& known = purpose == cel::Purpose::kSelector ? selectors_ : derived_;
  const auto found = known.find(expression);
  if (found != known.end()) return found->second;
  CompiledSelector compiled;
  if (expression.empty()) {
    compiled.error = {Code::kInvalidArgument, "CEL expression empty (unsupported selector type?)", {}};
  } else if (auto program = cel::Program::compile(expression, environment_, purpose)) {
    compiled.program = *std::move(program);
  } else {
    compiled.error = program.error();
  }
  program_text_ += expression.size();
  if (known.size() >= kMaxPrograms || program_text_ > kMaxText) {
    selectors_.clear();
    derived_.clear();
    program_text_ = expression.size();
  }
  known.emplace(expression, compiled);
  return compiled;
}

std::shared_ptr<Query> QueryCache::get(const model::DeviceClass& device_class, const model::DeviceSubRequest& request,
                                       const Options& options) {
  std::string key = query_key(device_class, request);
  const auto found = queries_.find(key);
  if (found != queries_.end()) return found->second;
  std::vector<Query::Part> parts;
  parts.reserve(device_class.selectors.size() + request.selectors.size());
  for (size_t i = 0; i < device_class.selectors.size(); ++i) {
    parts.push_back({device_class.meta.name, i, compile(device_class.selectors[i], cel::Purpose::kSelector)});
  }
  for (size_t i = 0; i < request.selectors.size(); ++i) {
    parts.push_back({"", i, compile(request.selectors[i], cel::Purpose::kSelector)});
  }
  std::vector<model::Toleration> tolerations = request.tolerations;
  tolerations.insert(tolerations.end(), options.own_tolerations.begin(), options.own_tolerations.end());
  auto query = std::make_shared<Query>(std::move(parts), std::move(tolerations), options.forbidden_taints, evaluator_);
  const size_t text = query->text_size();
  size_t answers = 0;
  if (queries_.size() % kCountedEvery == 0) {
    for (const auto& [other, kept] : queries_) answers += kept->remembered();
  }
  query_text_ += text;
  if (queries_.size() >= kMaxQueries || query_text_ > kMaxText || answers > kMaxAnswers) {
    queries_.clear();
    query_text_ = text;
  }
  queries_.emplace(std::move(key), query);
  return query;
}

Result<model::AttributeValue> QueryCache::derive(const std::string& expression, const DeviceInfo& device) {
  const CompiledSelector compiled = compile(expression, cel::Purpose::kDerivedAttribute);
  if (!compiled.program) return tl::unexpected<Error>(compiled.error);
  return with_view(device, [&](const cel::DeviceView& view) { return evaluator_->attribute(*compiled.program, view); });
}

const model::AttributeValue* AttributeColumn::look_up(const DeviceInfo& device) {
  if (device.index >= known_.size()) known_.resize(device.index + 1, &unknown_);
  known_[device.index] = device.published->find_attribute(device.pool->driver, name_);
  return known_[device.index];
}

std::shared_ptr<AttributeColumn> QueryCache::column(const std::string& name) {
  const auto found = columns_.find(name);
  if (found != columns_.end()) return found->second;
  size_t entries = 0;
  for (const auto& [other, column] : columns_) entries += column->remembered();
  if (columns_.size() >= kMaxColumns || entries > kMaxColumnEntries) columns_.clear();
  return columns_.emplace(name, std::make_shared<AttributeColumn>(name)).first->second;
}

QueryCache::Sizes QueryCache::sizes() const {
  return {.programs = selectors_.size() + derived_.size(),
          .program_text = program_text_,
          .queries = queries_.size(),
          .query_text = query_text_,
          .columns = columns_.size()};
}

void QueryCache::clear() {
  queries_.clear();
  query_text_ = 0;
}

void QueryCache::forget_device(uint32_t device_index) {
  for (auto& [name, column] : columns_) column->forget(device_index);
  for (auto& [key, query] : queries_) query->forget(device_index);
}

}  // namespace heddle::allocator
