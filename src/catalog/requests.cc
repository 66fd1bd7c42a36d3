#include "catalog/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "catalog/catalog.h"
#include "catalog/read_requests.h"

namespace heddle::catalog {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Every list of names of a family.
std::vector<const std::vector<std::string>*> key_lists(const Family& family) {
  std::vector<const std::vector<std::string>*> out = {&family.count, &family.percent, &family.priority};
  if (family.memory) out.push_back(&family.memory->keys);
  if (family.cores) out.push_back(&family.cores->keys);
  return out;
}

bool starts_with_any(std::string_view text, const std::vector<std::string>& starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const std::string& start) { return text.starts_with(start); });
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches_pattern(rest, text.substr(at))) return true;
  }
  return false;
}

Result<Requests> Requests::load(const std::vector<InputFile>& files, const Catalog& hardware) {
  Requests out;
  for (const InputFile& file : files) {
    HEDDLE_TRY(RequestVendor vendor, read_requests(file, hardware));
    // An administrator's file takes the place of the whole vendor: keys that vanish must not live on.
    std::erase_if(out.vendors_, [&](const RequestVendor& other) { return other.name == vendor.name; });
    out.vendors_.push_back(std::move(vendor));
  }
  std::sort(out.vendors_.begin(), out.vendors_.end(),
            [](const RequestVendor& a, const RequestVendor& b) { return a.name < b.name; });
  HEDDLE_CHECK_OK(out.index());
  return out;
}

Result<Requests> Requests::built_in() {
  HEDDLE_TRY(const Catalog hardware, Catalog::built_in());
  return load(embedded_inputs("requests.yaml"), hardware);
}

Result<Requests> Requests::with_folder(const std::string& directory) {
  if (directory.empty()) return built_in();
  HEDDLE_TRY(const Catalog hardware, Catalog::with_folder(directory));
  std::vector<InputFile> files = embedded_inputs("requests.yaml");
  HEDDLE_TRY(std::vector<InputFile> more, folder_inputs(directory, "requests.yaml"));
  for (InputFile& file : more) files.push_back(std::move(file));
  return load(files, hardware);
}

Result<void> Requests::index() {
  for (const RequestVendor& vendor : vendors_) {
    for (const Family& family : vendor.families) {
      for (const auto* list : key_lists(family)) {
        for (const std::string& key : *list) {
          const auto [first, fresh] = by_key_.emplace(key, Owner{&vendor, &family, nullptr, nullptr});
          if (fresh) continue;
          return fail(Code::kInvalidArgument, fmt::format("{}: \"{}\" has a meaning already, by {}; name it once",
                                                          family.place, key, first->second.family->place));
        }
      }
    }
  }
  return {};
}

const RequestVendor* Requests::find_vendor(std::string_view vendor) const {
  const auto it =
      std::find_if(vendors_.begin(), vendors_.end(), [&](const RequestVendor& one) { return one.name == vendor; });
  return it == vendors_.end() ? nullptr : &*it;
}

Requests::Owner Requests::owner(std::string_view resource) const {
  if (const auto it = by_key_.find(std::string(resource)); it != by_key_.end()) return it->second;
  for (const RequestVendor& vendor : vendors_) {
    for (const Domain& domain : vendor.domains) {
      if (!resource.starts_with(domain.prefix)) continue;
      const std::string_view name = resource.substr(domain.prefix.size());
      if (name.empty() || starts_with_any(name, domain.foreign)) continue;
      if (!domain.starts.empty() && !starts_with_any(lower(name), domain.starts)) continue;
      Owner out{&vendor, nullptr, nullptr, nullptr};
      for (const RefusedKey& refused : vendor.refused) {
        if (matches_pattern(refused.key, resource)) return {&vendor, nullptr, nullptr, &refused};
      }
      for (const PartitionFamily& partition : vendor.partitions) {
        if (starts_with_any(resource, partition.prefixes)) out.partition = &partition;
      }
      return out;
    }
  }
  return {};
}

std::string Requests::nearest_key(std::string_view resource) const {
  const RequestVendor* vendor = owner(resource).vendor;
  const auto distance = [&](std::string_view other) {
    std::vector<size_t> row(other.size() + 1);
    for (size_t j = 0; j <= other.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= resource.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= other.size(); ++j) {
        const size_t replaced = diagonal + (resource[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    return row[other.size()];
  };
  std::string best;
  size_t best_distance = SIZE_MAX;
  if (vendor == nullptr) return best;
  for (const Family& family : vendor->families) {
    for (const auto* list : key_lists(family)) {
      for (const std::string& key : *list) {
        if (const size_t d = distance(key); d < best_distance) {
          best_distance = d;
          best = key;
        }
      }
    }
  }
  return best;
}

}  // namespace heddle::catalog
