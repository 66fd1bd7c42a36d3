// What one container wrote for our devices, as exact whole numbers; what cannot be one is refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/translate.h"

namespace heddle::dialects {

// A container's resources that are ours, as texts of quantities.
struct Resources {
  std::string path;  // of the container's resources, "spec.containers[0].resources"
  std::string container;
  std::map<std::string, std::string> limits;
  std::map<std::string, std::string> requests;
  [[nodiscard]] bool empty() const { return limits.empty() && requests.empty(); }
};

class AmountReader {
 public:
  AmountReader(const Resources& resources, std::vector<Refusal>& refusals)
      : resources_(resources), refusals_(refusals) {}

  // The message names the container and the key.
  void refuse(std::string_view key, std::string_view message) const;
  [[nodiscard]] const std::string& container() const { return resources_.container; }
  [[nodiscard]] size_t refused() const { return refusals_.size(); }

  // limits win over requests.
  [[nodiscard]] const std::string* text(std::string_view key) const;
  // The one of these names that is written; two of them are refused.
  [[nodiscard]] std::string written(const std::vector<std::string>& names) const;
  // A whole number from 0 to 2^31-1, else a refusal. unit: what one of it is, in words ("MiB", "256 MiB"), with its
  // size in bytes; empty and 0 for plain numbers.
  struct Unit {
    std::string_view word;
    int64_t bytes = 0;
  };
  [[nodiscard]] std::optional<int64_t> number(const std::string& key, Unit unit) const;
  // A number of `unit_bytes`, or bytes when it has a suffix; in whole MiB.
  [[nodiscard]] std::optional<int64_t> mebibytes(const std::string& key, int64_t unit_bytes) const;
  // The same key in limits and requests must say the same.
  void check_agreement(const std::string& key) const;

 private:
  const Resources& resources_;
  std::vector<Refusal>& refusals_;
};

}  // namespace heddle::dialects
