// The queues of the reconciler: the tree that is in force, the units of work in it, and the evictions under way. The
// inside of the Reconciler; not for others.
//
// Nothing here is kept anywhere but in memory: the tree comes from the objects, the units from pods and claims. Units
// that run are taken over in the order of their allocationTimestamp. An eviction under way at a restart is planned
// anew; victims that are leaving by then are taken first.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/queue_table.h"
#include "engine/box_rooms.h"
#include "engine/eviction.h"
#include "queueing/preemption.h"
#include "queueing/queueing.h"

namespace heddle::controller {

// What the queues know as one workload: a pod alone; the members that a gang cannot start without; or a further member
// of an elastic gang, by itself.
struct Work {
  std::string id;    // as the unit's for a pod alone and the core of a gang, the pod's key for a further member
  std::string unit;  // id
  bool core = false;
  bool growth = false;            // a further member of a gang that has a minimum
  std::set<std::string> members;  // pod keys
  std::set<std::string> ghosts;   // claims of pods that are gone, not free yet
  uint64_t planned_version = 0;   // of placement_version(); no victims were found at this number
  std::set<std::string> refused_victims;
  int64_t refusals_end = 0;        // monotonic
  std::set<std::string> refusers;  // members that a disruption budget kept when the work was a victim
  // What members that died while it ran held: counted for those that will take their place, for a while.
  std::vector<std::vector<queueing::Portion>> kept;
  int64_t kept_until = 0;  // monotonic
  int vain = 0;            // times that room was made for it and it could not start
  int64_t plan_after = 0;  // monotonic: no room is made for it before

  // One member of a gang, by itself.
  [[nodiscard]] bool one_of_gang() const { return !core && id != unit; }
};

// Room that is being made, or was made, for a work. For one pod the State keeps it (keep_room, by the work's id), so
// the rest of its node is open; nothing else is placed on the sites of a gang until it is placed there.
struct Hold {
  std::set<std::string> sites;
  std::vector<std::string> victims;
  bool ready = false;  // all of them have gone
};

// The pods of a victim, in the order in which they are asked: what may refuse goes first, so that a gang is not broken
// for nothing.
struct Farewell {
  std::vector<std::pair<std::string, std::string>> pods;  // key, uid
  size_t next = 0;
  std::string why;
  std::string cause = {};  // as ReconcilerStats::evicted has it
};

// A pod that has been asked to go.
struct Departure {
  std::string work;  // the victim
  std::string uid;   // of the pod
  std::string why;   // for its event
  bool accepted = false;
  bool asked = false;  // a request is under way
  int64_t ask_at = 0;  // monotonic
  int failures = 0;
  std::string cause = {};
};

// A pod outside of all queues that could be evicted.
struct PlainVictim {
  queueing::Victim victim;
  std::string uid;
};

struct Queued {
  QueueTable table;
  std::vector<engine::FleetPart> fleet;  // as the tree was built for
  queueing::Amounts wide;                // with it: the boxes that are wider than a node, by meter of such
  uint64_t built_version = 0;            // of the table; 0: not built
  bool fleet_due = true;
  std::optional<queueing::Queues> queues;              // nothing: not leading yet
  std::unique_ptr<queueing::Preemptions> preemptions;  // with queues
  uint64_t version = 1;  // raised when something could start that could not before, apart from what the State says

  std::map<std::string, std::vector<queueing::Portion>> asked;      // by claim spec
  std::map<std::string, engine::VictimHoldings> holdings;           // by work
  std::map<std::string, Work> works;                                // by id
  std::map<std::string, std::string> work_of;                       // pod key -> work
  std::set<std::string> reform;                                     // units whose works are to be formed again
  std::set<std::string> resync;                                     // works of which something changed
  std::map<std::string, std::string> ghost_of;                      // claim -> work
  std::map<std::string, Hold> holds;                                // by the work that room is made for
  std::map<std::string, Farewell> farewells;                        // by victim: not all of its pods are asked yet
  std::map<std::string, Departure> departures;                      // by pod key
  std::map<std::string, PlainVictim> plain;                         // by pod key
  std::map<std::string, std::pair<std::string, size_t>> positions;  // work -> queue, position; of the last count
  std::map<std::string, size_t> started;                            // by queue, since then

  engine::BoxRooms rooms;
  bool rooms_stale = true;

  int64_t woken_for = 0;  // unix nanoseconds: the next start or end of a reservation
  bool status_dirty = false;
  int64_t status_at = 0;  // monotonic
  struct Written {
    std::string text;
    std::string condition;  // its status
    Time since;
  };
  std::map<std::string, Written> written;  // "kind/name" -> status
};

}  // namespace heddle::controller
