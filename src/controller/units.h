// Units: what starts as one. A pod alone is a unit, and so is a gang; queues, quota, preemption and placement all speak
// of units. Pure: pods and the objects that say the sizes of gangs in, units out; deterministic. One owner thread.
//
// For whoever places them:
//   - Unit::id is what queues know a unit by; its demand is the sum over the `members` that it cannot start without
//   (Work, in queued.h).
//   - A unit with `blocked` is told that reason (every member that waits) and is not tried.
//   - All waiting members of a gang are planned in one step, or none is; quota is asked once, with the sum.
//   - A gang whose placed members reach its minimum already takes further members one by one (a replacement, or
//     growth), in the topology domain of the others.
//
// Cost: upsert and remove O(log n) unless what a unit is made of changed; then its unit is made again when it is asked
// for, O(members log members).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/gangs.h"
#include "engine/engine.h"
#include "model/pod.h"

namespace heddle::controller {

struct Subgroup {
  std::string name;
  int64_t minimum = 0;  // of its own, besides the gang's
  std::vector<std::string> members;
};

struct Unit {
  std::string id;  // a pod alone: namespace/name; a gang: namespace/source/name
  bool gang = false;
  std::string name_space;
  std::string name;  // of the pod or the gang
  // Pod keys of what is there and neither finished nor being deleted: by rank, then creation, then key. Members that
  // ask Heddle for nothing (a launcher) are among them.
  std::vector<std::string> members;
  int64_t succeeded = 0;            // members that have ended well; they count as there
  int64_t minimum = 1;              // fewer never start
  int64_t size = 1;                 // wanted; more members than that may come
  std::vector<Subgroup> subgroups;  // by name; empty: members are not told apart
  std::string required;             // topology level, by name or by the node label it goes by; empty: none
  std::string preferred;
  int32_t priority = 0;  // the highest of its members
  Time submitted;        // of its first member
  // Why it cannot be tried whatever is free: GangSize (not known), GangInvalid, GangIncomplete (members are missing).
  std::optional<engine::Reason> blocked;
  bool never_preempts = false;  // a member says so (preemptionPolicy)

  // Segments: members of equal numbers lie in one domain of the level, which is empty where there are none.
  std::string segment_level;
  int64_t segment_size = 0;
  std::vector<int64_t> segments;  // as members; -1: in none
  // By pod key; empty where there are none.
  [[nodiscard]] std::map<std::string, int64_t> segment_numbers() const;

  [[nodiscard]] int64_t present() const { return static_cast<int64_t>(members.size()) + succeeded; }
};

// Of a gang that a framework declares without a size on its pods, while the object that has it is not known. kWait: it
// waits. kOneByOne: its minimum is 1, as without a gang, unless its object is of a kind that see_kinds() names; for who
// does not see all of those objects. Before that it waits until the kinds were asked for once since it came.
enum class UnknownSize { kWait, kOneByOne };

class UnitTable {
 public:
  explicit UnitTable(UnknownSize unknown = UnknownSize::kWait) : unknown_(unknown) {}

  // A pod that waits or runs, whether or not it asks for devices; one that is no member of a gang is a unit by itself.
  void upsert(const model::Pod& pod);
  void remove(const std::string& pod_key);
  void upsert_object(GangObject object);
  void remove_object(const std::string& key);
  // The kinds ("group/Kind") whose objects are all told by upsert_object(). A gang that names one of these and has no
  // size waits for the object.
  void see_kinds(std::set<std::string> object_kinds);
  // A gang waits to know whether the kind that it names is served: ask, say so with begin_look(), and then see_kinds().
  [[nodiscard]] bool look_due() const { return !unlooked_.empty(); }
  void begin_look();

  // The unit of a pod; null: the pod is not known. Good until the next change.
  [[nodiscard]] const Unit* unit_of(const std::string& pod_key) const;
  [[nodiscard]] const Unit* find(const std::string& id) const;
  // Ids of the units that changed since the last call, in order; those that are gone are among them.
  std::set<std::string> take_changed();

 private:
  struct Member {
    std::string unit;  // id
    std::optional<GangDeclaration> declaration;
    Time created;
    int32_t priority = 0;
    bool live = true;
    bool succeeded = false;
    bool never_preempts = false;
    friend bool operator==(const Member&, const Member&) = default;
  };
  struct Entry {
    std::set<std::string> pods;
    Unit unit;
    bool fresh = false;   // unit is as its pods say
    bool looked = false;  // what kinds are served was asked since it came
  };

  void touch(const std::string& id);
  void leave(const std::string& pod_key, const std::string& id);
  void make(Entry& entry, const std::string& id) const;
  void make_gang(const std::vector<const Member*>& present, bool looked, Unit& unit) const;
  static void add_minima(const GangObject& object, Unit& unit);
  static const GangDeclaration& newest_with_segments(const std::vector<const Member*>& present,
                                                     const GangDeclaration& said);
  void cut_segments(const std::vector<const Member*>& present, const GangDeclaration& said, Unit& unit) const;
  [[nodiscard]] const GangObject* object_of(const GangDeclaration& declaration) const;

  UnknownSize unknown_;
  std::set<std::string> seen_kinds_;
  std::map<std::string, Member> members_;  // by pod key
  mutable std::map<std::string, Entry> entries_;
  std::map<std::string, GangObject> objects_;
  std::map<std::string, std::set<std::string>> waiting_for_;  // object -> units that name it
  std::set<std::string> unlooked_;                            // units of which no look has begun
  std::set<std::string> looking_;                             // units of which one has
  std::set<std::string> changed_;
};

}  // namespace heddle::controller
