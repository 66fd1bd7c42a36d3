#include "allocator/constraints.h"

#include <algorithm>

namespace heddle::allocator {
namespace {

// 1 to 4: int, bool, string, version; their lists are 5 to 8.
constexpr int kKinds = 4;

bool is_scalar(const model::AttributeValue& value) {
  return value.index() >= 1 && value.index() <= kKinds;
}

struct Items {
  std::vector<std::string> operator()(std::monostate) const { return {}; }
  std::vector<std::string> operator()(int64_t value) const { return {std::to_string(value)}; }
  std::vector<std::string> operator()(bool value) const { return {value ? "true" : "false"}; }
  std::vector<std::string> operator()(const std::string& value) const { return {value}; }
  std::vector<std::string> operator()(const model::Version& value) const { return {value.text}; }
  template <typename T>
  std::vector<std::string> operator()(const std::vector<T>& values) const {
    std::vector<std::string> items;
    items.reserve(values.size());
    for (const auto& value : values) items.push_back((*this)(T(value)).front());
    return items;
  }
};

const std::string& attribute_name(const model::DeviceConstraint& constraint) {
  return constraint.match_attribute.empty() ? constraint.distinct_attribute : constraint.match_attribute;
}

}  // namespace

std::string value_text(const model::AttributeValue& value) {
  std::string text = std::to_string(value.index());
  for (const std::string& item : std::visit(Items{}, value)) text += ":" + std::to_string(item.size()) + ":" + item;
  return text;
}

Constraints::Constraints(const std::vector<PreparedClaim>& claims, const Features& features) : features_(features) {
  for (const PreparedClaim& claim : claims) {
    std::vector<State>& states = states_.emplace_back();
    for (size_t i = 0; i < claim.spec->constraints.size(); ++i) {
      State& state = states.emplace_back();
      state.constraint = &claim.spec->constraints[i];
      state.column = claim.columns[i].get();
    }
  }
}

void Constraints::begin() {
  for (std::vector<State>& states : states_) {
    for (State& state : states) {
      state.values.clear();
      state.sets.clear();
    }
  }
}

Constraints::Set Constraints::set_of(const model::AttributeValue& value) {
  Set set{.kind = static_cast<int>(value.index()), .items = std::visit(Items{}, value)};
  if (set.items.empty()) set.kind = 0;
  if (set.kind > kKinds) set.kind -= kKinds;
  std::sort(set.items.begin(), set.items.end());
  set.items.erase(std::unique(set.items.begin(), set.items.end()), set.items.end());
  return set;
}

Constraints::Set Constraints::common(const Set& a, const Set& b) {
  Set result;
  if (a.kind != b.kind) return result;
  std::set_intersection(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                        std::back_inserter(result.items));
  result.kind = result.items.empty() ? 0 : a.kind;
  return result;
}

bool Constraints::admits(const State& state, const model::AttributeValue& value) const {
  const bool match = !state.constraint->match_attribute.empty();
  if (features_.list_attributes) {
    const Set set = set_of(value);
    if (set.kind == 0) return false;
    if (match) return state.sets.empty() || common(state.sets.back(), set).kind != 0;
    return std::all_of(state.sets.begin(), state.sets.end(),
                       [&](const Set& other) { return common(other, set).kind == 0; });
  }
  if (state.values.empty()) return true;
  if (!is_scalar(value)) return false;
  if (match) return *state.values.front() == value;
  return std::none_of(state.values.begin(), state.values.end(), [&](const auto* other) { return *other == value; });
}

void Constraints::push(State& state, const model::AttributeValue& value) const {
  state.values.push_back(&value);
  if (!features_.list_attributes) return;
  Set set = set_of(value);
  const bool narrow = !state.constraint->match_attribute.empty() && !state.sets.empty();
  state.sets.push_back(narrow ? common(state.sets.back(), set) : std::move(set));
}

Result<const model::AttributeValue*> Constraints::lookup(size_t claim, uint32_t constraint,
                                                         const Alternative& alternative, const DeviceInfo& device) {
  const State& state = states_[claim][constraint];
  if (alternative.spec->derived_attributes.empty()) return state.column->find(device);
  const std::string& name = attribute_name(*state.constraint);
  const auto expression = alternative.spec->derived_attributes.find(name);
  if (expression == alternative.spec->derived_attributes.end()) return state.column->find(device);
  const auto key = std::pair(device.index, expression->second);
  auto known = derived_.find(key);
  if (known == derived_.end()) {
    auto value = alternative.cache->derive(expression->second, device);
    if (!value) {
      return fail(Code::kInvalidArgument,
                  "derived attribute " + name + " on device " + device_text(device) + ": " + value.error().message);
    }
    known = derived_.emplace(key, *std::move(value)).first;
  }
  return &known->second;
}

Result<bool> Constraints::add(size_t claim, const Alternative& alternative, const DeviceInfo& device) {
  if (alternative.constraints.empty()) return true;
  found_.clear();
  for (const uint32_t index : alternative.constraints) {
    const State& state = states_[claim][index];
    HEDDLE_TRY(const model::AttributeValue* value, lookup(claim, index, alternative, device));
    if (value == nullptr || !admits(state, *value)) return false;
    found_.push_back(value);
  }
  for (size_t i = 0; i < found_.size(); ++i) push(states_[claim][alternative.constraints[i]], *found_[i]);
  return true;
}

void Constraints::remove(size_t claim, const Alternative& alternative) {
  for (const uint32_t index : alternative.constraints) {
    State& state = states_[claim][index];
    state.values.pop_back();
    if (features_.list_attributes) state.sets.pop_back();
  }
}

}  // namespace heddle::allocator
