// Semantic versions 2.0.0, read and ordered as Kubernetes does (github.com/blang/semver/v4 v4.0.0): three numbers of 64
// bits, pre-release identifiers that count in the order, build metadata that does not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

class Semver {
 public:
  struct Identifier {
    std::string text;     // of an alphanumeric one
    uint64_t number = 0;  // of a numeric one
    bool numeric = false;
  };

  // Exactly "major.minor.patch[-pre][+build]". Errors: kInvalidArgument saying what is wrong.
  static Result<Semver> parse(std::string_view text);
  // As semver(text, true) in CEL: a leading "v", leading zeros and missing minor or patch numbers are accepted.
  static Result<Semver> parse_normalized(std::string_view text);

  [[nodiscard]] uint64_t major_number() const { return major_; }
  [[nodiscard]] uint64_t minor_number() const { return minor_; }
  [[nodiscard]] uint64_t patch_number() const { return patch_; }
  [[nodiscard]] std::string to_string() const;
  // -1, 0, 1; build metadata is ignored.
  [[nodiscard]] int compare(const Semver& other) const;

 private:
  uint64_t major_ = 0;
  uint64_t minor_ = 0;
  uint64_t patch_ = 0;
  std::vector<Identifier> pre_;
  std::vector<std::string> build_;
};

}  // namespace heddle
