#include "cel/device.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::cel {

namespace {

using Entry = std::pair<std::string_view, Value>;

const Value* find_in(const std::vector<Entry>& entries, const Value& key) {
  if (!key.is(Kind::kString)) return nullptr;
  auto it = std::lower_bound(entries.begin(), entries.end(), key.as_text(),
                             [](const Entry& entry, std::string_view name) { return entry.first < name; });
  return it != entries.end() && it->first == key.as_text() ? &it->second : nullptr;
}

std::pair<std::string_view, std::string_view> qualified(std::string_view name, std::string_view driver) {
  size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {driver, name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

}  // namespace

const Value* DeviceView::Inner::find(const Value& key) const {
  return find_in(entries, key);
}

const Value* DeviceView::Outer::find(const Value& key) const {
  const Value* found = find_in(domains, key);
  return found == nullptr ? &empty : found;
}

bool DeviceView::Outer::contains(const Value& key) const {
  return find_in(domains, key) != nullptr;
}

void DeviceView::Outer::add(std::string_view domain, std::string_view id, Value value, Arena& arena) {
  auto at = std::lower_bound(domains.begin(), domains.end(), domain,
                             [](const Entry& entry, std::string_view name) { return entry.first < name; });
  auto index = at - domains.begin();
  if (at == domains.end() || at->first != domain) {
    auto* made = arena.make<Inner>();
    if (made == nullptr) return;
    domains.insert(at, {domain, Value::map(made)});
    inner.insert(inner.begin() + index, made);
  }
  auto& entries = inner[static_cast<size_t>(index)]->entries;
  auto place = std::lower_bound(entries.begin(), entries.end(), id,
                                [](const Entry& entry, std::string_view name) { return entry.first < name; });
  entries.insert(place, {id, value});
}

Result<Value> DeviceView::version(const std::string& text) {
  auto parsed = Semver::parse(text);
  if (!parsed) return fail(Code::kInvalidArgument, "parse semantic version: " + parsed.error().message);
  return Value::semver(arena_.make<Semver>(std::move(*parsed)));
}

template <typename T, typename Convert>
Result<Value> DeviceView::list_value(const std::vector<T>& items, Convert convert) {
  auto* made = arena_.make<List>();
  made->items = items.empty() ? nullptr : arena_.array<Value>(items.size());
  made->size = items.size();
  for (size_t i = 0; i < items.size(); ++i) {
    HEDDLE_TRY(made->items[i], convert(items[i]));
  }
  return Value::list(made);
}

Result<Value> DeviceView::attribute_value(const model::AttributeValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return Value::integer(*i);
  if (const auto* b = std::get_if<bool>(&value)) return Value::boolean(*b);
  if (const auto* s = std::get_if<std::string>(&value)) return Value::string(*s);
  if (const auto* v = std::get_if<model::Version>(&value)) return version(v->text);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    return list_value(*list, [](int64_t i) -> Result<Value> { return Value::integer(i); });
  if (const auto* list = std::get_if<std::vector<bool>>(&value))
    return list_value(*list, [](bool b) -> Result<Value> { return Value::boolean(b); });
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    return list_value(*list, [](const std::string& s) -> Result<Value> { return Value::string(s); });
  if (const auto* list = std::get_if<std::vector<model::Version>>(&value))
    return list_value(*list, [this](const model::Version& v) { return version(v.text); });
  return fail(Code::kInvalidArgument, "unsupported attribute value");
}

bool DeviceView::add_attribute(std::string_view name, const model::AttributeValue& attribute) {
  auto value = attribute_value(attribute);
  if (!value) {
    error_ = fmt::format("attribute {}: {}", name, value.error().message);
    return false;
  }
  auto [domain, id] = qualified(name, driver_);
  attributes_.add(domain, id, *value, arena_);
  return true;
}

DeviceView::DeviceView(const model::Device& device, std::string_view driver, std::span<const std::string> own_names,
                       std::span<const model::AttributeValue> own)
    : driver_(driver), allow_multiple_allocations_(device.allow_multiple_allocations) {
  for (const auto& [name, attribute] : device.attributes) {
    if (!add_attribute(name, attribute)) return;
  }
  for (size_t i = 0; i < own_names.size(); ++i) {
    if (!add_attribute(own_names[i], own[i])) return;
  }
  for (const auto& [name, capacity] : device.capacity) {
    auto [domain, id] = qualified(name, driver);
    capacity_.add(domain, id, Value::quantity(&capacity.value), arena_);
  }
  if (arena_.exhausted()) error_ = "device is too large";
}

Value DeviceView::field(std::string_view name) const {
  if (name == "driver") return Value::string(driver_);
  if (name == "allowMultipleAllocations") return Value::boolean(allow_multiple_allocations_);
  if (name == "attributes") return Value::map(&attributes_);
  if (name == "capacity") return Value::map(&capacity_);
  return Value::error("no such field");
}

}  // namespace heddle::cel
