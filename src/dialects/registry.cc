#include "dialects/registry.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLargest = 2147483647;  // the writers count in int32
constexpr size_t kMostDevices = 4096;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

Result<int64_t> number(std::string_view text, const std::string& where) {
  int64_t value = 0;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 10)
    return fail(Code::kInvalidArgument, fmt::format("\"{}\" is no number", text), where);
  for (const char c : text) {
    if (c < '0' || c > '9') return fail(Code::kInvalidArgument, fmt::format("\"{}\" is no number", text), where);
    value = value * 10 + (c - '0');
  }
  if (value > kLargest) return fail(Code::kInvalidArgument, fmt::format("{} is above {}", value, kLargest), where);
  return negative ? -value : value;
}

Result<int64_t> amount(std::string_view text, const std::string& where) {
  HEDDLE_TRY(const int64_t value, number(text, where));
  if (value < 0) return fail(Code::kInvalidArgument, fmt::format("{} is negative", value), where);
  return value;
}

Result<bool> truth(std::string_view text, const std::string& where) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  return fail(Code::kInvalidArgument, fmt::format("\"{}\" is neither true nor false", text), where);
}

// The devices of a text in fields; read turns the fields of one into a device.
template <typename Read>
Result<std::vector<RegisteredDevice>> decode_fields(std::string_view text, const Read& read) {
  if (text.find(':') == std::string_view::npos)
    return fail(Code::kInvalidArgument, "there is no \":\" behind a device");
  std::vector<RegisteredDevice> out;
  for (const std::string_view segment : split(text, ':')) {
    if (segment.empty()) continue;
    if (out.size() >= kMostDevices) return fail(Code::kInvalidArgument, "more devices than any node has");
    HEDDLE_TRY(RegisteredDevice device, read(split(segment, ','), fmt::format("device {}", out.size())));
    if (device.id.empty()) return fail(Code::kInvalidArgument, "it has no id", fmt::format("device {}", out.size()));
    out.push_back(std::move(device));
  }
  return out;
}

Result<RegisteredDevice> read_hami(const std::vector<std::string_view>& fields, const std::string& where) {
  if (fields.size() != 7 && fields.size() != 9)
    return fail(Code::kInvalidArgument, fmt::format("it has {} fields, not 7 or 9", fields.size()), where);
  RegisteredDevice out;
  out.id = fields[0];
  HEDDLE_TRY(out.split, amount(fields[1], where + " count"));
  HEDDLE_TRY(out.memory_mib, amount(fields[2], where + " memory"));
  HEDDLE_TRY(out.cores, amount(fields[3], where + " cores"));
  out.type = fields[4];
  HEDDLE_TRY(out.numa, number(fields[5], where + " numa"));
  HEDDLE_TRY(out.healthy, truth(fields[6], where + " health"));
  if (fields.size() == 9) {
    HEDDLE_TRY(out.index, amount(fields[7], where + " index"));
    out.mode = fields[8];
  }
  return out;
}

Result<RegisteredDevice> read_volcano(const std::vector<std::string_view>& fields, const std::string& where) {
  if (fields.size() < 6)
    return fail(Code::kInvalidArgument, fmt::format("it has {} fields, not 6 or more", fields.size()), where);
  RegisteredDevice out;
  out.id = fields[0];
  HEDDLE_TRY(out.split, amount(fields[1], where + " count"));
  HEDDLE_TRY(out.memory_mib, amount(fields[2], where + " memory"));
  out.type = fields[3];
  HEDDLE_TRY(out.healthy, truth(fields[4], where + " health"));
  out.mode = fields[5];
  return out;
}

// A member of a JSON device; what is not there is the writer's zero.
Result<int64_t> member(const Json& object, const char* name, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) return int64_t{0};
  const bool whole = it->is_number_integer() && !(it->is_number_unsigned() && it->get<uint64_t>() > kLargest);
  if (!whole || it->get<int64_t>() > kLargest || it->get<int64_t>() < -kLargest)
    return fail(Code::kInvalidArgument, "must be a whole number of 32 bits", where + " " + name);
  return it->get<int64_t>();
}

Result<std::string> text_member(const Json& object, const char* name, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) return std::string();
  if (!it->is_string()) return fail(Code::kInvalidArgument, "must be a text", where + " " + name);
  return it->get<std::string>();
}

Result<RegisteredDevice> read_json(const Json& object, const std::string& where) {
  if (!object.is_object()) return fail(Code::kInvalidArgument, "must be an object", where);
  RegisteredDevice out;
  HEDDLE_TRY(out.id, text_member(object, "id", where));
  if (out.id.empty()) return fail(Code::kInvalidArgument, "it has no id", where);
  HEDDLE_TRY(out.type, text_member(object, "type", where));
  HEDDLE_TRY(out.mode, text_member(object, "mode", where));
  HEDDLE_TRY(out.index, member(object, "index", where));
  HEDDLE_TRY(out.split, member(object, "count", where));
  HEDDLE_TRY(out.memory_mib, member(object, "devmem", where));
  HEDDLE_TRY(out.cores, member(object, "devcore", where));
  HEDDLE_TRY(out.numa, member(object, "numa", where));
  if (out.split < 0 || out.memory_mib < 0 || out.cores < 0 || out.index < 0)
    return fail(Code::kInvalidArgument, "an amount is negative", where);
  // The writer leaves out what is false.
  const auto health = object.find("health");
  if (health != object.end() && !health->is_boolean())
    return fail(Code::kInvalidArgument, "must be true or false", where + " health");
  out.healthy = health != object.end() && health->get<bool>();
  const auto profiles = object.find("migProfiles");
  if (profiles != object.end() && profiles->is_array()) {
    for (const Json& profile : *profiles) {
      HEDDLE_TRY(std::string name, profile.is_object() ? text_member(profile, "name", where) : Result<std::string>(""));
      if (!name.empty()) out.mig_profiles.push_back(std::move(name));
    }
  }
  return out;
}

}  // namespace

Result<std::vector<RegisteredDevice>> decode_hami_register(std::string_view text) {
  if (!text.starts_with('[')) return decode_fields(text, read_hami);
  const Json document = parse_json(text);
  if (!document.is_array()) return fail(Code::kInvalidArgument, "not a JSON array");
  if (document.size() > kMostDevices) return fail(Code::kInvalidArgument, "more devices than any node has");
  std::vector<RegisteredDevice> out;
  for (const Json& object : document) {
    HEDDLE_TRY(RegisteredDevice device, read_json(object, fmt::format("device {}", out.size())));
    out.push_back(std::move(device));
  }
  return out;
}

Result<std::vector<RegisteredDevice>> decode_volcano_register(std::string_view text) {
  return decode_fields(text, read_volcano);
}

Result<std::vector<std::vector<GrantedDevice>>> decode_granted(std::string_view text) {
  std::vector<std::vector<GrantedDevice>> out;
  if (text.empty()) return out;
  std::vector<std::string_view> containers = split(text, ';');
  if (containers.back().empty()) containers.pop_back();  // ";" ends a container
  if (containers.size() > kMostDevices) return fail(Code::kInvalidArgument, "more containers than any pod has");
  for (const std::string_view container : containers) {
    std::vector<GrantedDevice>& devices = out.emplace_back();
    for (const std::string_view segment : split(container, ':')) {
      if (segment.empty()) continue;
      const std::string where = fmt::format("container {} device {}", out.size() - 1, devices.size());
      const std::vector<std::string_view> fields = split(segment, ',');
      if (fields.size() != 4)
        return fail(Code::kInvalidArgument, fmt::format("it has {} fields, not 4", fields.size()), where);
      GrantedDevice device;
      device.id = fields[0];
      device.type = fields[1];
      if (device.id.empty()) return fail(Code::kInvalidArgument, "it has no id", where);
      HEDDLE_TRY(device.memory_mib, amount(fields[2], where + " memory"));
      HEDDLE_TRY(device.cores, amount(fields[3], where + " cores"));
      devices.push_back(std::move(device));
    }
  }
  return out;
}

}  // namespace heddle::dialects
