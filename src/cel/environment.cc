#include "cel/environment.h"

#include <array>
#include <cctype>

namespace heddle::cel {

namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct NamedKind {
  std::string_view name;
  TypeKind kind;
};
constexpr std::array<NamedKind, 11> kBasics = {{{"dyn", TypeKind::kDyn},
                                                {"bool", TypeKind::kBool},
                                                {"int", TypeKind::kInt},
                                                {"uint", TypeKind::kUint},
                                                {"double", TypeKind::kDouble},
                                                {"string", TypeKind::kString},
                                                {"bytes", TypeKind::kBytes},
                                                {"null", TypeKind::kNull},
                                                {"timestamp", TypeKind::kTimestamp},
                                                {"duration", TypeKind::kDuration},
                                                {"any", TypeKind::kAny}}};

struct NamedObject {
  std::string_view name;
  std::string_view full_name;
};
constexpr std::array<NamedObject, 6> kObjects = {{{"Quantity", "kubernetes.Quantity"},
                                                  {"Semver", "kubernetes.Semver"},
                                                  {"IP", "net.IP"},
                                                  {"CIDR", "net.CIDR"},
                                                  {"URL", "kubernetes.URL"},
                                                  {"Format", "kubernetes.NamedFormat"}}};

bool accept(std::string_view& text, char c) {
  text = trim(text);
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// The place of the "(" that opens the parameters: the last one before "->" that is matched by the closing one is always
// the first after the name, since types use <>.
size_t parameters_start(std::string_view signature) {
  return signature.find('(');
}

// The dot between target type and name: outside <> and only when the target starts with a known type word.
size_t target_end(std::string_view head) {
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '<') ++depth;
    if (head[i] == '>') --depth;
    if (head[i] == '.' && depth == 0) return i;
  }
  return std::string_view::npos;
}

}  // namespace

Environment::Environment(EnvironmentOptions options) {
  for (std::string_view signature : standard_signatures()) declare(signature);
  for (std::string_view signature : extension_signatures()) declare(signature);
  if (options.mode == Mode::kStored || options.list_attributes) declare("dyn.includes(dyn) -> bool");
  declare_device(options);
  for (const NamedKind& basic : kBasics)
    if (basic.kind != TypeKind::kAny && basic.kind != TypeKind::kDyn && basic.kind != TypeKind::kNull)
      type_names_[std::string(basic.name)] = types_.type_of(types_.basic(basic.kind));
  const Type* dyn = types_.basic(TypeKind::kDyn);
  type_names_["null_type"] = types_.type_of(types_.basic(TypeKind::kNull));
  type_names_["list"] = types_.type_of(types_.list(dyn));
  type_names_["map"] = types_.type_of(types_.map(dyn, dyn));
  type_names_["type"] = types_.type_of(types_.basic(TypeKind::kType));
  type_names_["google.protobuf.Timestamp"] = types_.type_of(types_.basic(TypeKind::kTimestamp));
  type_names_["google.protobuf.Duration"] = types_.type_of(types_.basic(TypeKind::kDuration));
  type_names_["optional_type"] = types_.type_of(types_.optional(dyn));
  for (const NamedObject& object : kObjects)
    type_names_[std::string(object.full_name)] =
        types_.type_of(types_.make(TypeKind::kObject, std::string(object.full_name), {}));
}

void Environment::declare_device(const EnvironmentOptions& options) {
  const Type* string = types_.basic(TypeKind::kString);
  bool stored = options.mode == Mode::kStored;
  const Type* attribute = types_.basic(stored || options.list_attributes ? TypeKind::kDyn : TypeKind::kAny);
  const Type* quantity = types_.make(TypeKind::kObject, "kubernetes.Quantity", {});
  device_type_ = types_.make(TypeKind::kObject, "kubernetes.DRADevice", {});
  device_fields_["driver"] = string;
  device_fields_["attributes"] = types_.map(string, types_.map(string, attribute));
  device_fields_["capacity"] = types_.map(string, types_.map(string, quantity));
  if (stored || options.consumable_capacity) device_fields_["allowMultipleAllocations"] = types_.basic(TypeKind::kBool);
}

const Type* Environment::parse_type(std::string_view& text) {
  text = trim(text);
  size_t length = 0;
  while (length < text.size() && (std::isalnum(static_cast<unsigned char>(text[length])) != 0 || text[length] == '_'))
    ++length;
  std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  std::vector<const Type*> inner;
  if (accept(text, '<')) {
    do {
      inner.push_back(parse_type(text));
    } while (accept(text, ','));
    accept(text, '>');
  }
  if (word == "list") return types_.list(inner[0]);
  if (word == "map") return types_.map(inner[0], inner[1]);
  if (word == "optional") return types_.optional(inner[0]);
  if (word == "type") return types_.type_of(inner[0]);
  for (const NamedKind& basic : kBasics)
    if (basic.name == word) return types_.basic(basic.kind);
  for (const NamedObject& object : kObjects)
    if (object.name == word) return types_.make(TypeKind::kObject, std::string(object.full_name), {});
  return types_.parameter(std::string(word));
}

void Environment::declare(std::string_view signature) {
  size_t open = parameters_start(signature);
  std::string_view head = signature.substr(0, open);
  std::string_view rest = signature.substr(open + 1);
  Overload overload;
  // "=" marks a dotted name that is a whole global function, such as =sets.contains.
  bool global = head.front() == '=';
  if (global) head.remove_prefix(1);
  size_t dot = global ? std::string_view::npos : target_end(head);
  if (dot != std::string_view::npos) {
    std::string_view target = head.substr(0, dot);
    overload.member = true;
    overload.parameters.push_back(parse_type(target));
    head.remove_prefix(dot + 1);
  }
  if (!accept(rest, ')')) {
    do {
      overload.parameters.push_back(parse_type(rest));
    } while (accept(rest, ','));
    accept(rest, ')');
  }
  rest = trim(rest);
  rest.remove_prefix(2);  // "->"
  overload.result = parse_type(rest);
  functions_[std::string(head)].push_back(std::move(overload));
}

const std::vector<Overload>* Environment::find_function(std::string_view name) const {
  auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : &it->second;
}

const Type* Environment::find_device_field(std::string_view name) const {
  auto it = device_fields_.find(name);
  return it == device_fields_.end() ? nullptr : it->second;
}

const Type* Environment::find_type_name(std::string_view name) const {
  auto it = type_names_.find(name);
  return it == type_names_.end() ? nullptr : it->second;
}

}  // namespace heddle::cel
