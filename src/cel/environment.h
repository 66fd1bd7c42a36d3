// What an expression may use: functions with their overloads, and the type of `device`. Immutable once made; shared by
// threads.
//
// Source: k8s.io/apiserver v0.37.2 pkg/cel/environment/base.go and k8s.io/dynamic-resource-allocation v0.37.2
// cel/compile.go. Left out on purpose: the authorizer library, which needs a variable that DRA does not declare.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cel/type.h"

namespace heddle::cel {

// How upstream compiles: an expression that is stored already (the allocator), with everything that was ever allowed,
// or a new one at admission, with what the gates allow.
enum class Mode : uint8_t { kStored, kNew };

struct EnvironmentOptions {
  Mode mode = Mode::kStored;
  bool consumable_capacity = true;  // device.allowMultipleAllocations
  bool list_attributes = false;     // list attributes and includes()
};

struct Overload {
  bool member = false;
  std::vector<const Type*> parameters;  // of a member: the target first
  const Type* result = nullptr;
};

class Environment {
 public:
  explicit Environment(EnvironmentOptions options = {});

  // Null when no such function is declared.
  [[nodiscard]] const std::vector<Overload>* find_function(std::string_view name) const;
  // Null when `device` has no such field.
  [[nodiscard]] const Type* find_device_field(std::string_view name) const;
  [[nodiscard]] const Type* device_type() const { return device_type_; }
  // int, string, list, ... as values of type `type`; null when there is no such name.
  [[nodiscard]] const Type* find_type_name(std::string_view name) const;
  [[nodiscard]] const TypeTable& types() const { return types_; }

 private:
  void declare(std::string_view signature);
  void declare_device(const EnvironmentOptions& options);
  const Type* parse_type(std::string_view& text);

  TypeTable types_;
  std::map<std::string, std::vector<Overload>, std::less<>> functions_;
  std::map<std::string, const Type*, std::less<>> device_fields_;
  std::map<std::string, const Type*, std::less<>> type_names_;
  const Type* device_type_ = nullptr;
};

// Each "name(parameters) -> result" or "Target.name(parameters) -> result".
std::span<const std::string_view> standard_signatures();
std::span<const std::string_view> extension_signatures();

}  // namespace heddle::cel
