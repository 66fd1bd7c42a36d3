// What Heddle knows of every vendor's hardware: models, memory, hard partitions, device nodes, variables, versions.
// Data, read from catalog/<vendor>/hardware.yaml; the same program takes an administrator's folder with the same form.
//
// An immutable value without globals; const use from any thread. Cost: loading reads every file once (milliseconds);
// look-ups are linear in a vendor's models (dozens).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/embedded.h"

namespace heddle::catalog {

// How far Heddle's own use of this hardware was shown. Of a vendor; nothing here speaks about the quality of a figure.
enum class Support : uint8_t {
  kVerified,    // ran on the real hardware
  kSimulated,   // ran against a library or kernel interface with the vendor's form
  kDocumented,  // written from the vendor's documents or code, not run
  kUnverified,  // known at second hand
};
std::string_view support_name(Support support);

// Where a figure comes from. `unverified` figures were not found in anything that the vendor wrote.
struct Source {
  enum class Kind : uint8_t { kVendor, kThirdParty, kUnverified };
  std::string id;
  std::string title;
  std::string version;
  std::string url;  // may be empty
  Kind kind = Kind::kVendor;
};
std::string_view source_kind_name(Source::Kind kind);

template <typename T>
struct Figure {
  T value{};
  std::string source;  // id in Vendor::sources
};

// Slots start .. start + size - 1 of the card.
struct Placement {
  int64_t start = 0;
  int64_t size = 1;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// One hard form that a card can be cut into.
struct Partition {
  std::string name;           // "1g.5gb", "vir05_1c_16g", "cpx_nps1"
  std::optional<int64_t> id;  // the number by which the vendor's library knows it
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> compute_units;     // of Model::compute_unit
  std::map<std::string, int64_t> consumes;  // of PartitionTable::counters
  std::vector<Placement> placements;        // in slots; empty: anywhere, as long as the counters last
  int64_t count = 0;                        // how many of this one an empty card gives
  std::string source;
};

// How partitions of one card go together.
enum class PartitionMode : uint8_t {
  kNone,
  kMixed,    // any mix that the counters and slots allow, one by one
  kUniform,  // the whole card is in one mode: `count` partitions of the same kind, changed only while it is idle
};
std::string_view partition_mode_name(PartitionMode mode);

// Every way to cut a card of some model.
struct PartitionTable {
  std::string name;
  PartitionMode mode = PartitionMode::kNone;
  std::string slot;                         // what a slot is: "memory-slice"
  int64_t slots = 0;                        // 0: partitions have no placements
  std::map<std::string, int64_t> counters;  // what partitions consume beside slots; bytes for "memory"
  std::vector<Partition> partitions;        // names are unique
  std::vector<std::string> notes;
  std::string source;

  [[nodiscard]] const Partition* find(std::string_view partition) const;
};

struct Model {
  std::string name;                   // unique within the vendor: "A100-SXM4-40GB", "910B4"
  std::vector<std::string> products;  // names that the vendor's driver reports; case does not matter
  std::vector<std::string> contains;  // parts of such names, where a part is enough to know the model
  std::string architecture;
  std::string kind;                                  // gpu, npu, tpu, ...
  std::optional<Figure<int64_t>> memory_bytes;       // on the card, as the driver reports it or as it is sold
  std::optional<Figure<int64_t>> allocatable_bytes;  // what tenants can have of it
  std::optional<Figure<int64_t>> compute_units;
  std::string compute_unit;       // what is counted: "SM", "CU", "AI core", ...
  int64_t devices_per_board = 1;  // devices that are built and handed out together, such as two dies of a module
  PartitionTable partitioning;    // mode kNone: whole only
  std::vector<std::string> notes;
  std::string source;
};

// Devices that are joined by something faster than the host's bus.
struct System {
  std::string name;  // "Atlas 900 A3 SuperPoD", "v5p", "NVL72"
  std::string kind;  // node, rack, supernode, slice
  std::string link;  // "NVLink 5", "HCCS", "ICI"
  std::vector<std::string> models;
  std::optional<int64_t> devices;           // at most, in the whole system
  std::optional<int64_t> devices_per_node;  // of one host
  std::optional<int64_t> nodes;
  // Of a torus or mesh: chips along each axis. host: those of one host; shapes: every form that the vendor sells.
  std::vector<int64_t> host;
  std::vector<std::vector<int64_t>> shapes;
  bool wraps = false;  // opposite faces of large enough shapes are joined
  std::vector<std::string> notes;
  std::string source;
};

// "/dev/nvidia{minor}": fields in braces are Card's. `when` says what must be so for the node to be there.
struct DeviceNode {
  std::string path;
  std::string per;  // "driver": once for any number of devices; "device"; "partition"
  std::string when;
  std::string source;
};

// A variable by which a runtime learns which devices are its own, or a limit.
struct Variable {
  std::string name;
  std::string read_by;   // who obeys it
  std::string meaning;   // what its value is
  std::string in_claim;  // what Heddle sets when it prepares a claim; empty: nothing
  std::string source;
};

// Versions that work together.
struct VersionPair {
  std::string driver;   // "525.60.13"
  std::string runtime;  // "CUDA 12.0"
  std::string rule;     // "at least", "same major", ...
  std::string source;
};

struct Vendor {
  std::string name;  // "nvidia"
  std::string title;
  std::string kind;  // default of Model::kind
  Support support = Support::kUnverified;
  std::string support_text;             // what was shown and what was not
  std::string library;                  // the management library's file, empty: none
  std::vector<std::string> isolations;  // hard, mask, soft, whole
  std::vector<Source> sources;
  std::vector<DeviceNode> nodes;
  std::vector<Variable> variables;
  std::vector<VersionPair> versions;
  std::vector<System> systems;
  std::vector<PartitionTable> tables;
  std::vector<Model> models;
  std::vector<std::string> notes;

  [[nodiscard]] const Source* find_source(std::string_view id) const;
  [[nodiscard]] const Model* find_model(std::string_view model) const;
};

class Catalog {
 public:
  // Later files extend the vendors of earlier ones: a model, table, system, variable, node or source of the same name
  // takes the place of the earlier one. Errors: kInvalidArgument, one line a trouble with file, line and field.
  static Result<Catalog> load(const std::vector<InputFile>& files);
  // The catalogue of this program.
  static Result<Catalog> built_in();
  // That, extended by an administrator's folder: DIR/<vendor>/hardware.yaml. An empty name: built_in().
  static Result<Catalog> with_folder(const std::string& directory);

  [[nodiscard]] const std::vector<Vendor>& vendors() const { return vendors_; }  // by name
  [[nodiscard]] const Vendor* find_vendor(std::string_view vendor) const;
  // By its name in the catalogue, exactly. Null when either is not known.
  [[nodiscard]] const Model* find_model(std::string_view vendor, std::string_view model) const;
  // By the product name that the driver reports: an exact one, else the longest part that fits one model only.
  [[nodiscard]] const Model* match_product(std::string_view vendor, std::string_view product) const;

 private:
  std::vector<Vendor> vendors_;
};

}  // namespace heddle::catalog
