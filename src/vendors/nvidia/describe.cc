#include "vendors/nvidia/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace heddle::vendors::nvidia {

std::string normal_pci_bus_id(const std::string& text) {
  std::string lower;
  for (const char c : text) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  // The domain has eight digits in NVML and at least four in the kernel.
  const size_t colon = lower.find(':');
  if (colon == std::string::npos) return lower;
  size_t cut = 0;
  while (colon - cut > 4 && lower[cut] == '0') ++cut;
  return lower.substr(cut);
}

std::string architecture_name(uint32_t code) {
  constexpr std::array<std::string_view, 11> kNames = {"",       "",       "Kepler", "Maxwell", "Pascal",   "Volta",
                                                       "Turing", "Ampere", "Ada",    "Hopper",  "Blackwell"};
  return code < kNames.size() ? std::string(kNames[code]) : std::string();
}

std::string mig_profile_of_name(const std::string& name) {
  constexpr std::string_view kMark = " MIG ";
  const size_t at = name.rfind(kMark);
  return at == std::string::npos ? std::string() : name.substr(at + kMark.size());
}

std::string fabric_name(const unsigned char (&cluster)[16], uint32_t clique) {
  if (std::ranges::all_of(cluster, [](unsigned char byte) { return byte == 0; })) return {};
  std::string name;
  for (size_t i = 0; i < std::size(cluster); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    name += fmt::format("{:02x}", cluster[i]);
  }
  return fmt::format("{}.{}", name, clique);
}

std::string cuda_version_text(int64_t version) {
  if (version <= 0) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool is_application_xid(uint64_t xid) {
  constexpr std::array<uint64_t, 6> kApplication = {13, 31, 43, 45, 68, 109};
  return std::ranges::find(kApplication, xid) != kApplication.end();
}

bool is_reset_xid(uint64_t xid) {
  constexpr std::array<uint64_t, 14> kReset = {46, 48, 61, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 154};
  return std::ranges::find(kReset, xid) != kReset.end();
}

}  // namespace heddle::vendors::nvidia
