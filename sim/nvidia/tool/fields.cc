#include "tool/fields.h"

#include <cctype>
#include <charconv>

namespace nvsim {

Fields::Fields(const YAML::Node& node, std::string where, const YAML::Node& fallback)
    : node_(node), fallback_(fallback), where_(std::move(where)) {
  if (!node_.IsNull() && !node_.IsMap()) {
    throw ConfigError{where_ + ": is not a mapping; write key: value pairs"};
  }
}

void Fields::fail(const std::string& key, const std::string& text) const {
  throw ConfigError{where_ + (where_.empty() ? "" : ".") + key + ": " + text};
}

YAML::Node Fields::node(const std::string& key) const {
  // Indexing a const node never creates the key.
  const YAML::Node& own = node_;
  const YAML::Node& other = fallback_;
  if (own.IsMap() && own[key]) {
    return own[key];
  }
  return other.IsMap() && other[key] ? other[key] : YAML::Node(YAML::NodeType::Undefined);
}

std::string Fields::text(const std::string& key, const std::string& otherwise) const {
  const YAML::Node value = node(key);
  if (!value) {
    return otherwise;
  }
  if (!value.IsScalar()) {
    fail(key, "is not a text; write one value");
  }
  return value.Scalar();
}

std::int64_t Fields::number(const std::string& key, std::int64_t otherwise, std::int64_t low, std::int64_t high) const {
  const std::string written = text(key, "");
  if (!node(key)) {
    return otherwise;
  }
  const bool hex = written.starts_with("0x");
  std::int64_t value = 0;
  const char* begin = written.data() + (hex ? 2 : 0);
  const char* end = written.data() + written.size();
  const auto result = std::from_chars(begin, end, value, hex ? 16 : 10);
  if (result.ec != std::errc() || result.ptr != end || value < low || value > high) {
    fail(key, "'" + written + "' is not a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

bool Fields::flag(const std::string& key, bool otherwise) const {
  const std::string written = text(key, otherwise ? "true" : "false");
  if (written != "true" && written != "false") {
    fail(key, "'" + written + "' is not a yes or no; write true or false");
  }
  return written == "true";
}

std::int64_t Fields::scaled(const std::string& key, std::int64_t otherwise, const char* const* units,
                            const std::int64_t* factors, int count, const std::string& fix) const {
  const std::string written = text(key, "");
  if (!node(key)) {
    return otherwise;
  }
  std::int64_t value = 0;
  const char* end = written.data() + written.size();
  const auto result = std::from_chars(written.data(), end, value);
  const std::string unit(result.ptr, end);
  for (int index = 0; index < count && result.ec == std::errc() && value >= 0; ++index) {
    std::int64_t scaled_value = 0;
    if (unit == units[index] && !__builtin_mul_overflow(value, factors[index], &scaled_value)) {
      return scaled_value;
    }
  }
  fail(key, "'" + written + "' is not " + fix);
}

std::int64_t Fields::bytes(const std::string& key, std::int64_t otherwise) const {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti"};
  static constexpr std::int64_t kFactors[] = {1, 1LL << 10, 1LL << 20, 1LL << 30, 1LL << 40};
  return scaled(key, otherwise, kUnits, kFactors, 5, "a size; write it like 300Mi, 80Gi or in bytes");
}

std::int64_t Fields::duration(const std::string& key, std::int64_t otherwise) const {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  static constexpr std::int64_t kFactors[] = {1, 1'000, 1'000'000, 1'000'000'000};
  return scaled(key, otherwise, kUnits, kFactors, 4, "a duration; write it like 2ms or 50us");
}

std::int64_t Fields::power(const std::string& key, std::int64_t otherwise) const {
  static constexpr const char* kUnits[] = {"W", "mW"};
  static constexpr std::int64_t kFactors[] = {1000, 1};
  return scaled(key, otherwise, kUnits, kFactors, 2, "a power; write it like 700W");
}

void Fields::only(const std::set<std::string>& known) const {
  if (!node_.IsMap()) {
    return;
  }
  for (const auto& entry : node_) {
    const std::string key = entry.first.as<std::string>("");
    if (!known.contains(key)) {
      std::string names;
      for (const std::string& name : known) {
        names += (names.empty() ? "" : ", ") + name;
      }
      fail(key, "is not a field here; the fields are " + names);
    }
  }
}

}  // namespace nvsim
