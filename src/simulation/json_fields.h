// Fields of a JSON object, read one by one; what nobody read is unknown and refused. For the readers of this folder.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/quantity.h"
#include "base/result.h"

namespace heddle::simulation {

using Json = nlohmann::ordered_json;

// "90s", "10m", "2h", "1d", or a number of seconds. Errors: kInvalidArgument with the form to write.
Result<Duration> read_duration(const Json& value, const std::string& path);

// The value is borrowed.
class Fields {
 public:
  // Errors: kInvalidArgument when it is not an object.
  static Result<Fields> of(const Json& value, const std::string& path);

  // Null: not there.
  const Json* find(std::string_view name);
  [[nodiscard]] std::string path(std::string_view name) const;

  // Absent gives the default. Errors: kInvalidArgument with the path.
  Result<std::string> text(std::string_view name, std::string otherwise = {});
  Result<int64_t> integer(std::string_view name, int64_t otherwise, int64_t least, int64_t most);
  Result<std::optional<int64_t>> maybe_integer(std::string_view name, int64_t least, int64_t most);
  Result<std::optional<Quantity>> quantity(std::string_view name);
  Result<Duration> duration(std::string_view name, Duration otherwise);
  Result<std::map<std::string, std::string>> text_map(std::string_view name);
  // Errors: kInvalidArgument when there is a field that was not asked for.
  Result<void> done() const;

 private:
  Fields(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}
  const Json* value_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace heddle::simulation
