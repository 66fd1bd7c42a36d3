// A published device as a selector sees it: device.driver, device.allowMultipleAllocations, device.attributes,
// device.capacity.
//
// Made once per device and evaluated against many times without allocation. Borrows the model's device, which must
// outlive it. Thread rule: immutable after make(); any number of readers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/semver.h"
#include "cel/arena.h"
#include "cel/value.h"
#include "model/device.h"

namespace heddle::cel {

class DeviceView {
 public:
  // driver: the domain of names without one. A device with an attribute that has no usable value is made all the same,
  // and every evaluation against it fails with that reason, as upstream has it.
  // own_names, own: attributes beside those of the device.
  DeviceView(const model::Device& device, std::string_view driver, std::span<const std::string> own_names = {},
             std::span<const model::AttributeValue> own = {});
  DeviceView(const DeviceView&) = delete;
  DeviceView& operator=(const DeviceView&) = delete;

  [[nodiscard]] const std::string& error() const { return error_; }
  // The field of `device`; null when there is none of that name.
  [[nodiscard]] Value field(std::string_view name) const;

 private:
  // domain -> id -> value, each level sorted by name.
  class Inner final : public Map {
   public:
    [[nodiscard]] const Value* find(const Value& key) const override;
    [[nodiscard]] size_t size() const override { return entries.size(); }
    [[nodiscard]] Value key_at(size_t index) const override { return Value::string(entries[index].first); }
    [[nodiscard]] Value value_at(size_t index) const override { return entries[index].second; }
    std::vector<std::pair<std::string_view, Value>> entries;
  };
  class Outer final : public Map {
   public:
    Outer() : empty(Value::map(&nothing)) {}
    // Any domain is found: an unknown one is an empty map.
    [[nodiscard]] const Value* find(const Value& key) const override;
    [[nodiscard]] bool contains(const Value& key) const override;
    [[nodiscard]] size_t size() const override { return domains.size(); }
    [[nodiscard]] Value key_at(size_t index) const override { return Value::string(domains[index].first); }
    [[nodiscard]] Value value_at(size_t index) const override { return domains[index].second; }
    void add(std::string_view domain, std::string_view id, Value value, Arena& arena);
    std::vector<std::pair<std::string_view, Value>> domains;
    std::vector<Inner*> inner;
    Inner nothing;
    Value empty;
  };

  bool add_attribute(std::string_view name, const model::AttributeValue& attribute);
  Result<Value> attribute_value(const model::AttributeValue& value);
  Result<Value> version(const std::string& text);
  template <typename T, typename Convert>
  Result<Value> list_value(const std::vector<T>& items, Convert convert);

  Arena arena_;
  std::string_view driver_;
  bool allow_multiple_allocations_;
  Outer attributes_;
  Outer capacity_;
  std::string error_;
};

}  // namespace heddle::cel
