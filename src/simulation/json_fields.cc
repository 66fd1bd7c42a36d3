#include "simulation/json_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace heddle::simulation {
namespace {

constexpr int64_t kMostSeconds = 10LL * 366 * 24 * 3600;
constexpr const char* kDurationForm = R"(write a number of seconds, or a text such as "90s", "10m", "2h" or "1d")";

std::string shown(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = dump_json(value);
  if (text.size() > kLongest) text = cut_text(text, kLongest) + "...";
  return text;
}

tl::unexpected<Error> wrong(const std::string& path, std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), path);
}

}  // namespace

Result<Duration> read_duration(const Json& value, const std::string& path) {
  const auto bad = [&] { return wrong(path, fmt::format("{} is no duration: {}", shown(value), kDurationForm)); };
  int64_t number = 0;
  int64_t unit = 1;
  if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end + 1 != text.data() + text.size()) return bad();
    constexpr int64_t kMinute = 60;
    constexpr int64_t kHour = 3600;
    constexpr int64_t kDay = 24 * kHour;
    unit = *end == 's' ? 1 : *end == 'm' ? kMinute : *end == 'h' ? kHour : *end == 'd' ? kDay : 0;
    if (unit == 0) return bad();
  } else {
    return bad();
  }
  if (number < 0 || number > kMostSeconds / unit) return wrong(path, "is not between 0 and ten years");
  return Duration::seconds(number * unit);
}

Result<Fields> Fields::of(const Json& value, const std::string& path) {
  if (!value.is_object()) {
    // Of a whole file the path is its name, with what separates it from the fields.
    return wrong(path.ends_with(": ") ? path.substr(0, path.size() - 2) : path,
                 fmt::format("is {}: write an object in braces", shown(value)));
  }
  return Fields(value, path);
}

const Json* Fields::find(std::string_view name) {
  known_.emplace(name);
  const auto found = value_->find(std::string(name));
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() || path_.ends_with(": ") ? path_ + std::string(name) : fmt::format("{}.{}", path_, name);
}

Result<std::string> Fields::text(std::string_view name, std::string otherwise) {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) return wrong(path(name), fmt::format("is {}: write a text in quotes", shown(*value)));
  return value->get<std::string>();
}

Result<std::optional<int64_t>> Fields::maybe_integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<int64_t>();
  const bool whole =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX);
  if (!whole || value->get<int64_t>() < least || value->get<int64_t>() > most) {
    return wrong(path(name), fmt::format("is {}: write a whole number from {} to {}", shown(*value), least, most));
  }
  return std::optional<int64_t>(value->get<int64_t>());
}

Result<int64_t> Fields::integer(std::string_view name, int64_t otherwise, int64_t least, int64_t most) {
  HEDDLE_TRY(const std::optional<int64_t> value, maybe_integer(name, least, most));
  return value.value_or(otherwise);
}

Result<std::optional<Quantity>> Fields::quantity(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<Quantity>();
  const std::string text = value->is_string() ? value->get<std::string>() : shown(*value);
  const auto quantity = Quantity::parse(text);
  if (!quantity || quantity->sign() < 0 || !quantity->value()) {
    return wrong(path(name), fmt::format("{} is no amount: write one such as \"8Gi\" or 4", shown(*value)));
  }
  return std::optional<Quantity>(*quantity);
}

Result<Duration> Fields::duration(std::string_view name, Duration otherwise) {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  return read_duration(*value, path(name));
}

Result<std::map<std::string, std::string>> Fields::text_map(std::string_view name) {
  std::map<std::string, std::string> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_object()) return wrong(path(name), "write an object of texts, such as {\"key\": \"value\"}");
  for (const auto& [key, item] : value->items()) {
    if (!item.is_string()) return wrong(fmt::format("{}[{}]", path(name), key), "write a text in quotes");
    out[key] = item.get<std::string>();
  }
  return out;
}

Result<void> Fields::done() const {
  for (const auto& [key, item] : value_->items()) {
    if (known_.contains(key)) continue;
    return wrong(path(key), fmt::format("there is no such field; there are {}", fmt::join(known_, ", ")));
  }
  return {};
}

}  // namespace heddle::simulation
