// What users write to ask for a vendor's devices, in every dialect that Heddle understands: resource names, units,
// limits, defaults, and the annotations that go with them. Data, read from catalog/<vendor>/requests.yaml; src/dialects
// gives it its meaning.
//
// An immutable value without globals; const use from any thread. Cost: loading reads every file once (milliseconds);
// look-ups of a key are one hash.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "catalog/embedded.h"

namespace heddle::catalog {

class Catalog;

// Memory or cores written without a count.
enum class WithoutCount : uint8_t { kRefuse, kOneDevice };

// What a count above 1 means together with memory or cores.
enum class Several : uint8_t {
  kShares,     // that many shares, each of another device
  kWhole,      // whole devices; memory and cores beside it have no meaning
  kWholeOnly,  // whole devices; memory and cores may stand beside it when they say a whole device
};

// Cores of a share whose cores are not written.
enum class DefaultCores : uint8_t {
  kNone,              // no limit and no guarantee
  kAll,               // all of the device
  kAllWithoutMemory,  // all when memory is not written either, else none
};

struct MemoryStep {
  int64_t units = 0;  // of MemoryKey::unit_bytes
  int64_t cores = 0;  // percent that go with it
};

// A hard form that memory is rounded up to.
struct Template {
  std::string name;
  int64_t mib = 0;
  int64_t cores = 0;  // of HardSplit::cores
};

// Devices that only hardware templates can divide (Ascend): memory chooses the smallest that holds it.
struct HardSplit {
  int64_t whole_mib = 0;            // what a whole device gives
  int64_t capacity_mib = 0;         // a request above this is refused
  int64_t cores = 0;                // of a whole device
  std::vector<Template> templates;  // smallest first
};

struct MemoryKey {
  std::vector<std::string> keys;
  int64_t unit_bytes = 0;
  bool suffix_is_bytes = false;  // "512Mi" is right
  bool zero_is_unset = false;
  std::vector<int64_t> values;    // the only ones; empty: any
  std::vector<MemoryStep> steps;  // rounded up to these, and cores follow; empty: none
  std::string note;
};

struct CoresKey {
  std::vector<std::string> keys;
  int64_t from = 1;
  int64_t to = 100;  // a whole device
  DefaultCores default_cores = DefaultCores::kNone;
};

// Annotations of a pod that restrict which devices its containers get. Lists are comma separated.
struct Restrictions {
  std::vector<std::string> use_type;
  std::vector<std::string> nouse_type;
  std::vector<std::string> use_uuid;
  std::vector<std::string> nouse_uuid;
};

// Keys that together make one request. All names in one list mean the same; the first is the one to recommend.
struct Family {
  std::string place;  // file, line and field, for messages
  std::string vendor;
  std::string id;       // unique within the vendor
  std::string dialect;  // "HAMi", "Volcano vGPU", ...
  std::string request;  // name of the request in a claim
  std::string noun;     // "NVIDIA GPU"
  std::string group;    // families of one group exclude each other in one container; empty: none
  std::vector<std::string> count;
  std::optional<MemoryKey> memory;
  std::vector<std::string> percent;
  std::optional<CoresKey> cores;
  std::vector<std::string> priority;
  WithoutCount without_count = WithoutCount::kRefuse;
  Several several = Several::kShares;
  bool one_whole_without_memory = false;    // cores alone are not a share: the whole device, or nothing
  int64_t units_per_device = 1;             // of the count: 1 is a part of a device, more are whole devices
  int64_t devices_per_module = 1;           // a count of 1 means all of a module
  bool count_is_slices = false;             // the count is slices of one device: one partition of that size
  std::vector<std::string> models;          // exact names; empty: any
  std::vector<std::string> model_prefixes;  // beginnings of names; empty: any
  // Attributes of the device that the name pins where the device publishes them: {"kernelDriver": "i915"}.
  std::map<std::string, std::string> attributes;
  // Variables that the dialect's own webhook puts into the container and programs read. "{container}" stands for the
  // container's name, "{priority}" for the priority that was written; without one the variable is left out.
  std::map<std::string, std::string> environment;
  std::optional<HardSplit> hard_split;
  std::string soft_split_annotation;  // with the value below: memory is exact, and cores may be written
  std::string soft_split_value;
  Restrictions restrictions;
  std::vector<std::string> notes;
};

// Resource names that stand for ready-made partitions: what follows the prefix names the profile.
struct PartitionFamily {
  std::string vendor;
  std::string id;
  std::string dialect;
  std::string request;
  std::string noun;
  std::vector<std::string> prefixes;  // "nvidia.com/mig-"
  std::string rule;                   // how the rest becomes a profile: mig, mim, amd-mode, ascend-template
  std::vector<std::string> model_prefixes;
  std::vector<std::string> notes;
};

// The hard parts of one model that can be chosen by size, smallest first.
struct ModelParts {
  std::vector<std::string> products;  // as the driver reports them, in small letters
  struct Part {
    std::string profile;
    int64_t mib = 0;
  };
  std::vector<Part> parts;
};

// Names that are understood and have no exact meaning here. "*" stands for anything.
struct RefusedKey {
  std::string key;
  std::string why;
  std::string write;
};

// An annotation with a closed set of values.
struct ChosenAnnotation {
  std::string key;
  std::vector<std::string> values;
  std::string meaning;
  bool one_device_only = false;  // refused beside a count above 1
};

// Which names of a domain ask for this vendor's devices. Domains are shared with other plugins.
struct Domain {
  std::string prefix;                // "nvidia.com/"
  std::vector<std::string> starts;   // of names, without regard to case; empty: every name of the domain
  std::vector<std::string> foreign;  // beginnings of names that are others' although they look alike
};

struct RequestVendor {
  std::string name;  // the word of the `vendor` attribute
  std::string title;
  std::vector<Domain> domains;
  std::vector<Family> families;
  std::vector<PartitionFamily> partitions;
  std::vector<ModelParts> parts;  // from the hardware, for a mode that asks for the smallest part that holds enough
  std::vector<RefusedKey> refused;
  Restrictions restrictions;                // of every family
  std::string type_prefix;                  // what the dialect writes before product names: "NVIDIA-"
  std::vector<std::string> same_numa_node;  // annotations
  std::vector<std::string> mode;            // annotations: hami-core, mig, mps
  std::vector<ChosenAnnotation> chosen;
  std::vector<std::string> kept;     // annotations that are a wish and pass on
  std::vector<std::string> written;  // annotations that other programs write: never input. "*" stands for anything
  std::vector<std::string> notes;
  std::vector<std::string> sources;
  std::map<std::string, std::string> unread_variables = {};  // of containers, that the dialects know: what to write
};

class Requests {
 public:
  // A later file takes the place of an earlier one of the same vendor. Errors: kInvalidArgument, one line a trouble
  // with file, line and field; also for a key that two vendors claim. hardware: where the templates of a hard split
  // come from.
  static Result<Requests> load(const std::vector<InputFile>& files, const Catalog& hardware);
  // Those of this program.
  static Result<Requests> built_in();
  // Those, with the vendors of an administrator's folder in place of or beside ours: DIR/<vendor>/requests.yaml, and
  // hardware.yaml for the templates that they name. An empty name: built_in().
  static Result<Requests> with_folder(const std::string& directory);

  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  Requests(Requests&&) = default;
  Requests& operator=(Requests&&) = default;

  [[nodiscard]] const std::vector<RequestVendor>& vendors() const { return vendors_; }  // by name
  [[nodiscard]] const RequestVendor* find_vendor(std::string_view vendor) const;

  // What a resource key is; all null for keys that are not ours.
  struct Owner {
    const RequestVendor* vendor = nullptr;
    const Family* family = nullptr;              // the key is one of its names
    const PartitionFamily* partition = nullptr;  // the key begins with one of its prefixes
    const RefusedKey* refused = nullptr;
    // With a vendor and nothing else: a name of a domain of ours that nobody knows.
    [[nodiscard]] bool unknown() const { return vendor && !family && !partition && !refused; }
  };
  [[nodiscard]] Owner owner(std::string_view resource) const;
  // The known key of the same vendor that is nearest to an unknown one; empty when the vendor is not known either.
  [[nodiscard]] std::string nearest_key(std::string_view resource) const;

 private:
  Requests() = default;
  Result<void> index();

  std::vector<RequestVendor> vendors_;
  std::unordered_map<std::string, Owner> by_key_;
};

// "*" in the pattern stands for any text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace heddle::catalog
