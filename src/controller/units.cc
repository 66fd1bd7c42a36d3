#include "controller/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace heddle::controller {
namespace {

std::string unit_id(const model::Pod& pod, const std::optional<GangDeclaration>& gang) {
  if (!gang) return pod.meta.key();
  return fmt::format("{}/{}/{}", pod.meta.name_space, source_name(gang->source), gang->name);
}

// "scheduling.volcano.sh/PodGroup" of "scheduling.volcano.sh/PodGroup namespace/name".
std::string kind_of(const std::string& object) {
  return object.substr(0, object.find(' '));
}

engine::Reason size_unknown(const GangDeclaration& gang) {
  std::string why;
  if (gang.source == GangSource::kHeddle || gang.object.empty()) {
    why = fmt::format("the size of gang {} is not known", gang.name);
  } else {
    why = fmt::format("the size of gang {} is not known: {} is not there, or not served", gang.name, gang.object);
  }
  return {"GangSize", why + "; write heddle.dev/gang-size on its pods"};
}

engine::Reason kind_unknown(const GangDeclaration& gang) {
  return {"GangSize", fmt::format("the size of gang {} is not known yet: whether {} is served is being asked",
                                  gang.name, kind_of(gang.object))};
}

}  // namespace

std::map<std::string, int64_t> Unit::segment_numbers() const {
  std::map<std::string, int64_t> numbers;
  for (size_t i = 0; i < segments.size() && !segment_level.empty(); ++i) numbers[members[i]] = segments[i];
  return numbers;
}

void UnitTable::touch(const std::string& id) {
  changed_.insert(id);
  if (const auto it = entries_.find(id); it != entries_.end()) it->second.fresh = false;
}

void UnitTable::upsert(const model::Pod& pod) {
  const std::string key = pod.meta.key();
  Member member;
  member.declaration = gang_of(pod);
  member.unit = unit_id(pod, member.declaration);
  member.created = pod.meta.created;
  member.priority = pod.priority;
  member.live = !pod.finished() && !pod.meta.deleting;
  member.succeeded = pod.phase == "Succeeded" && !pod.meta.deleting;
  member.never_preempts = pod.never_preempts;
  const auto known = members_.find(key);
  if (known != members_.end() && known->second == member) return;
  if (known != members_.end() && known->second.unit != member.unit) leave(key, known->second.unit);
  entries_[member.unit].pods.insert(key);
  touch(member.unit);
  if (member.declaration && !member.declaration->object.empty()) {
    waiting_for_[member.declaration->object].insert(member.unit);
    const bool told = member.declaration->size || member.declaration->minimum ||
                      seen_kinds_.contains(kind_of(member.declaration->object));
    if (unknown_ == UnknownSize::kOneByOne && !told && !entries_[member.unit].looked &&
        !looking_.contains(member.unit)) {
      unlooked_.insert(member.unit);
    }
  }
  members_.insert_or_assign(key, std::move(member));
}

void UnitTable::leave(const std::string& pod_key, const std::string& id) {
  touch(id);
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return;
  entry->second.pods.erase(pod_key);
  if (!entry->second.pods.empty()) return;
  entries_.erase(entry);
  unlooked_.erase(id);
  looking_.erase(id);
  for (auto waiting = waiting_for_.begin(); waiting != waiting_for_.end();) {
    waiting->second.erase(id);
    waiting = waiting->second.empty() ? waiting_for_.erase(waiting) : std::next(waiting);
  }
}

void UnitTable::remove(const std::string& pod_key) {
  const auto known = members_.find(pod_key);
  if (known == members_.end()) return;
  const std::string id = known->second.unit;
  members_.erase(known);
  leave(pod_key, id);
}

void UnitTable::upsert_object(GangObject object) {
  const auto known = objects_.find(object.key);
  if (known != objects_.end() && known->second == object) return;
  const std::string key = object.key;
  objects_.insert_or_assign(key, std::move(object));
  if (const auto waiting = waiting_for_.find(key); waiting != waiting_for_.end()) {
    for (const std::string& id : waiting->second) touch(id);
  }
}

void UnitTable::remove_object(const std::string& key) {
  if (objects_.erase(key) == 0) return;
  if (const auto waiting = waiting_for_.find(key); waiting != waiting_for_.end()) {
    for (const std::string& id : waiting->second) touch(id);
  }
}

void UnitTable::begin_look() {
  looking_.merge(unlooked_);
  unlooked_.clear();
}

void UnitTable::see_kinds(std::set<std::string> object_kinds) {
  for (const std::string& id : std::exchange(looking_, {})) {
    entries_.at(id).looked = true;
    touch(id);
  }
  const std::set<std::string> before = std::exchange(seen_kinds_, std::move(object_kinds));
  for (const auto& [object, units] : waiting_for_) {
    const std::string kind = kind_of(object);
    if (seen_kinds_.contains(kind)) std::erase_if(unlooked_, [&](const auto& id) { return units.contains(id); });
    if (before.contains(kind) == seen_kinds_.contains(kind)) continue;
    for (const std::string& id : units) {
      if (before.contains(kind)) entries_.at(id).looked = true;  // it went
      touch(id);
    }
  }
}

const GangObject* UnitTable::object_of(const GangDeclaration& declaration) const {
  if (declaration.object.empty()) return nullptr;
  const auto it = objects_.find(declaration.object);
  return it == objects_.end() ? nullptr : &it->second;
}

const Unit* UnitTable::find(const std::string& id) const {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return nullptr;
  if (!it->second.fresh) make(it->second, id);
  return &it->second.unit;
}

const Unit* UnitTable::unit_of(const std::string& pod_key) const {
  const auto it = members_.find(pod_key);
  return it == members_.end() ? nullptr : find(it->second.unit);
}

std::set<std::string> UnitTable::take_changed() {
  return std::exchange(changed_, {});
}

void UnitTable::make(Entry& entry, const std::string& id) const {
  entry.fresh = true;
  Unit& unit = entry.unit;
  unit = {};
  unit.id = id;
  unit.name_space = id.substr(0, id.find('/'));
  unit.name = id.substr(id.rfind('/') + 1);
  std::vector<std::pair<std::string, const Member*>> present;
  for (const std::string& key : entry.pods) {
    const Member& member = members_.at(key);
    unit.gang = unit.gang || member.declaration.has_value();
    if (member.live) present.emplace_back(key, &member);
    if (member.succeeded) ++unit.succeeded;
  }
  const auto order = [](const auto& pod) {
    const Member& member = *pod.second;
    const int64_t rank =
        member.declaration ? member.declaration->index.value_or(std::numeric_limits<int64_t>::max()) : 0;
    return std::tuple(rank, member.created.unix_nanos, pod.first);
  };
  std::sort(present.begin(), present.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  std::vector<const Member*> members;
  std::map<std::string, Subgroup> subgroups;
  for (const auto& [key, member] : present) {
    if (members.empty() || member->priority > unit.priority) unit.priority = member->priority;
    if (members.empty() || member->created < unit.submitted) unit.submitted = member->created;
    unit.never_preempts = unit.never_preempts || member->never_preempts;
    members.push_back(member);
    unit.members.push_back(key);
    if (!member->declaration || member->declaration->subgroup.empty()) continue;
    Subgroup& subgroup = subgroups[member->declaration->subgroup];
    subgroup.name = member->declaration->subgroup;
    subgroup.minimum = std::max(subgroup.minimum, member->declaration->subgroup_minimum.value_or(0));
    subgroup.members.push_back(key);
  }
  for (auto& [name, subgroup] : subgroups) unit.subgroups.push_back(std::move(subgroup));
  if (unit.gang && !members.empty()) make_gang(members, entry.looked, unit);
}

// By rank among the members that are in segments: by their indexes where these are all there, else by position. So that
// a member that comes back has its number again, nothing is asked of it before all are there (make_gang).
void UnitTable::cut_segments(const std::vector<const Member*>& present, const GangDeclaration& said, Unit& unit) const {
  const GangObject* object = object_of(said);
  std::optional<int64_t> devices = said.segment_devices;
  if (!devices && !said.segment_size && said.segment_level.empty() && object != nullptr)
    devices = object->segment_devices;
  unit.segment_level = said.segment_level.empty() && devices ? "superNode" : said.segment_level;
  unit.segments.assign(present.size(), -1);
  if (unit.segment_level.empty()) return;
  const bool by_object = said.segment_level.empty();
  unit.segment_size = said.segment_size.value_or(0);
  if (devices) {
    if (said.devices <= 0 || *devices % said.devices != 0) {
      unit.blocked = engine::Reason{
          "GangInvalid", fmt::format("sp-block: {} devices are no whole number of pods of {}; write a multiple of it",
                                     *devices, said.devices)};
      return;
    }
    unit.segment_size = *devices / said.devices;
  }
  std::vector<size_t> cut;  // members in segments, by rank
  for (size_t i = 0; i < present.size(); ++i) {
    const bool asks =
        by_object ? present[i]->declaration->devices > 0 : !present[i]->declaration->segment_level.empty();
    if (asks) cut.push_back(i);
  }
  const auto index_of = [&](size_t i) { return present[cut[i]]->declaration->index.value_or(-1); };
  if (unit.segment_size == 0) {  // of a JobSet: each Job
    for (size_t i = 0; i < cut.size(); ++i) unit.segments[cut[i]] = std::max<int64_t>(index_of(i), 0) / kRanksOfAJob;
    unit.segment_size = std::count(unit.segments.begin(), unit.segments.end(), cut.empty() ? 0 : unit.segments[cut[0]]);
    return;
  }
  const auto members = static_cast<int64_t>(cut.size());
  if (said.whole_segments && unit.succeeded == 0 && unit.present() >= unit.size && members % unit.segment_size != 0) {
    unit.blocked = engine::Reason{
        "GangInvalid",
        fmt::format("cloud.google.com/gke-tpu-topology: a slice of it has {} hosts, and {} members of gang "
                    "{} are to be hosts; write as many as make whole slices",
                    unit.segment_size, members, unit.name)};
    return;
  }
  bool indexed = true;
  for (size_t i = 0; i < cut.size(); ++i) {
    indexed = indexed && index_of(i) >= 0 && index_of(i) < unit.size && (i == 0 || index_of(i) > index_of(i - 1));
  }
  for (size_t i = 0; i < cut.size(); ++i)
    unit.segments[cut[i]] = (indexed ? index_of(i) : static_cast<int64_t>(i)) / unit.segment_size;
}

// Of subgroups, as the gang's object has them; one of which no member is there is needed as well. What the members say
// themselves wins.
void UnitTable::add_minima(const GangObject& object, Unit& unit) {
  for (const auto& [name, minimum] : object.subgroup_minimum) {
    const auto at =
        std::lower_bound(unit.subgroups.begin(), unit.subgroups.end(), name,
                         [](const Subgroup& subgroup, const std::string& key) { return subgroup.name < key; });
    if (at == unit.subgroups.end() || at->name != name) {
      unit.subgroups.insert(at, {name, minimum, {}});
    } else if (at->minimum == 0) {
      at->minimum = minimum;
    }
  }
}

// What cuts the gang into segments: a launcher, which may be the newest, is in none.
const GangDeclaration& UnitTable::newest_with_segments(const std::vector<const Member*>& present,
                                                       const GangDeclaration& said) {
  const Member* newest = nullptr;
  for (const Member* member : present) {
    if (member->declaration->segment_level.empty()) continue;
    if (newest == nullptr || member->created > newest->created) newest = member;
  }
  return newest == nullptr ? said : *newest->declaration;
}

// Where members differ, the newest says what holds: a workload that is scaled writes new pods, not old ones.
void UnitTable::make_gang(const std::vector<const Member*>& present, bool looked, Unit& unit) const {
  const Member* newest = present.front();
  for (const Member* member : present) {
    if (member->created > newest->created) newest = member;
  }
  const GangDeclaration& said = *newest->declaration;
  const GangObject* object = object_of(said);
  std::optional<int64_t> size = said.size;
  std::optional<int64_t> minimum = said.minimum;
  if (object != nullptr) {
    if (!size && !minimum) {
      size = object->size;
      minimum = object->minimum;
    }
    unit.required = object->required;
  }
  if (!said.required.empty()) unit.required = said.required;
  unit.preferred = said.preferred;
  for (const Member* member : present) {
    if (member->declaration->problem.empty()) continue;
    unit.blocked = engine::Reason{"GangInvalid", member->declaration->problem};
    return;
  }
  if (object != nullptr) add_minima(*object, unit);
  const bool framework = said.source != GangSource::kHeddle && said.source != GangSource::kKueue;
  const bool alone = unknown_ == UnknownSize::kOneByOne && !seen_kinds_.contains(kind_of(said.object));
  if (!size && !minimum && framework && alone && !looked && !said.object.empty()) {
    unit.blocked = kind_unknown(said);
    return;
  }
  if (!size && !minimum && framework && alone) minimum = 1;
  if (!size && !minimum) {
    unit.blocked = size_unknown(said);
    return;
  }
  unit.minimum = std::max<int64_t>(minimum.value_or(size.value_or(1)), 1);
  unit.size = std::max(size.value_or(unit.present()), unit.minimum);
  cut_segments(present, newest_with_segments(present, said), unit);
  if (unit.blocked) return;
  if (size && unit.minimum > *size) {
    unit.blocked = engine::Reason{
        "GangInvalid", fmt::format("the minimum of gang {} is {} and its size {}; write a minimum of at most the size",
                                   unit.name, unit.minimum, *size)};
    return;
  }
  if (unit.present() < unit.minimum) {
    unit.blocked = engine::Reason{"GangIncomplete", fmt::format("waits for members of gang {}: {} of {} are there",
                                                                unit.name, unit.present(), unit.minimum)};
    return;
  }
  for (const Subgroup& subgroup : unit.subgroups) {
    const auto here = static_cast<int64_t>(subgroup.members.size());
    if (here >= subgroup.minimum) continue;
    unit.blocked = engine::Reason{"GangIncomplete", fmt::format("waits for members of gang {}, subgroup {}: {} of {} "
                                                                "are there",
                                                                unit.name, subgroup.name, here, subgroup.minimum)};
    return;
  }
}

}  // namespace heddle::controller
