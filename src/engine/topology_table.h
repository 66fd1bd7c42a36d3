// Which AcceleratorTopology is in force: the oldest one that can be read, of equal age the first by name. It names all
// levels there are besides the node; without one the levels are default_topology(). Pure; one owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/topology.h"
#include "model/queue.h"

namespace heddle::engine {

// As the API server has it; one that cannot be read is known by its name, and by why.
struct TopologyObject {
  model::ObjectMeta meta;
  int64_t generation = 0;
  Result<model::AcceleratorTopology> topology;
};
// Errors: kInvalidArgument when not even its name can be read.
Result<TopologyObject> read_topology_object(std::string_view json);

class TopologyTable {
 public:
  // True: the levels in force are other ones now.
  bool upsert(TopologyObject object);
  bool remove(const std::string& name);

  // Narrow to wide. A level that is called "node" marks where the node is: what is narrower has no part in placement.
  [[nodiscard]] std::vector<TopologyLevel> levels() const;
  // Null: none is, and the default levels hold.
  [[nodiscard]] const TopologyObject* in_force() const;

  struct Standing {
    bool in_force = false;
    std::string reason;   // InForce, NotInForce, Invalid
    std::string message;  // what is wrong or left out, and the fix; may be empty
    friend bool operator==(const Standing&, const Standing&) = default;
  };
  // By name, of every object.
  [[nodiscard]] std::map<std::string, Standing> standings() const;
  [[nodiscard]] const std::map<std::string, TopologyObject>& objects() const { return objects_; }

 private:
  bool settle();

  std::map<std::string, TopologyObject> objects_;
  std::string in_force_;  // name; empty: none
  std::vector<model::TopologyLevel> levels_;
};

}  // namespace heddle::engine
