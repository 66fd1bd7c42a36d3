// Typed reading of YAML mappings whose every error names the field and what to write instead.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <set>
#include <string>

namespace nvsim {

// Thrown and caught inside the configuration reader only.
struct ConfigError {
  std::string text;
};

// A mapping and where it stands in the file ("cards[1]").
class Fields {
 public:
  // `fallback` answers for what `node` does not have (a card's model).
  Fields(const YAML::Node& node, std::string where, const YAML::Node& fallback = YAML::Node());

  std::string text(const std::string& key, const std::string& otherwise) const;
  // Within [low, high].
  std::int64_t number(const std::string& key, std::int64_t otherwise, std::int64_t low, std::int64_t high) const;
  bool flag(const std::string& key, bool otherwise) const;
  // Bytes: 300Mi, 80Gi, 1024.
  std::int64_t bytes(const std::string& key, std::int64_t otherwise) const;
  // Nanoseconds: 2ms, 50us, 1s.
  std::int64_t duration(const std::string& key, std::int64_t otherwise) const;
  // Milliwatts: 700W, 350000mW.
  std::int64_t power(const std::string& key, std::int64_t otherwise) const;
  YAML::Node node(const std::string& key) const;
  // Refuses every key that is not in `known`.
  void only(const std::set<std::string>& known) const;

  [[noreturn]] void fail(const std::string& key, const std::string& text) const;

 private:
  std::int64_t scaled(const std::string& key, std::int64_t otherwise, const char* const* units,
                      const std::int64_t* factors, int count, const std::string& fix) const;

  YAML::Node node_, fallback_;
  std::string where_;
};

}  // namespace nvsim
