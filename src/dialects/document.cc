#include "dialects/document.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::dialects {
namespace {

using catalog::Family;
using catalog::RequestVendor;

constexpr int64_t kMebibyte = int64_t{1} << 20;

constexpr const char* kStart = R"(# Dialects: what Heddle understands of a pod's request

<!-- Written from catalog/*/requests.yaml by the test dialects_test; run it with HEDDLE_UPDATE_DOCS=1 after a change of the data. -->

A pod asks for accelerators in the words of its vendor's device plugin, of HAMi, of Volcano or of KAI; Heddle turns these into
ResourceClaims, or refuses the pod and says what to write instead. Nothing is rounded, narrowed or replaced in silence: what a
vendor's hardware forces is told as a warning, as an event and in the annotation `heddle.dev/rounding` of the claim.

`heddle translate -f pod.yaml` shows what becomes of a manifest, without a cluster: on standard output the workload and what
is made for it, on standard error one line a request. Exit 2: refused, with the reason.

## What holds for every vendor

- Keys stand in `resources.limits` or `resources.requests` of a container (init containers and sidecars too); limits win, and
  different values in the two are refused. The same key as an annotation of the pod is refused: nobody would read it.
- Values are whole numbers. `7k` is 7000, as the API server itself writes it; `1.5`, `100m`, `-1`, a word and anything above
  2147483647 are refused. `16Gi` is refused where the unit is not bytes, with the number to write.
- A count of 0 asks for nothing; beside memory or cores above 0 it is refused.
- A whole device is asked for by its count alone. Memory and cores are per device; several shares are of different cards.
- Cores are percent of a device's compute. 0 is no limit and no guarantee; 100 has the card alone.
- A percentage of memory becomes whole MiB of the card that is granted, rounded down.
- Lists in annotations are comma separated. Types match a part of the product name in any case, uuids the whole; an empty list
  restricts nothing. They hold for the devices of that vendor only.
- A name that looks like one of a vendor's and is not is refused with the nearest known one.
- One container may ask for several vendors; its claim then has several requests. At most 32 devices a container.
- `deviceclass.resource.kubernetes.io/heddle` and `.../heddle-<vendor>` ask for whole devices of that class.
- Labels and annotations that schedulers write (`hami.io/vgpu-*`, `hami.io/*-devices-allocated`, `volcano.sh/bind-*` ...) are
  never a request. Pods with the label `hami.io/webhook: ignore` are left alone (`heddle translate --ignored` shows them too).
- `hami.io/node-scheduler-policy`, `hami.io/gpu-scheduler-policy` and `hami.io/device-scoring-weights` stay as wishes; `mutex`
  among the card policies reserves all compute of the card, so that nobody else gets a part of it.
- ResourceQuota keys of these names (`requests.nvidia.com/gpu`, `limits.nvidia.com/gpumem` ...) count what claims hold.

## KAI: annotations of the pod (NVIDIA)

| annotation | meaning | refused |
|---|---|---|
| `gpu-fraction` | that part of one device's memory, in hundredths; no limit on compute | not between 0 and 1; finer than 0.01; beside `nvidia.com/gpu` |
| `gpu-memory` | MiB of each device, a plain number | a unit; 0; beside `gpu-fraction` or `nvidia.com/gpu` |
| `gpu-fraction-num-devices` | that many different devices, each with the above | without one of the two above |
| `gpu-fraction-container-name` | the container that gets it, init containers first; else the first container | no such container |
| `mps` | goes with `gpu-fraction`; it names no part of the SMs, so the guard isolates the share; for MPS write a claim | alone |
)";

std::string code(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  out.reserve(names.size());
  for (const std::string& name : names) out.push_back("`" + name + "`");
  return fmt::format("{}", fmt::join(out, ", "));
}

std::string count_meaning(const Family& family) {
  if (family.count_is_slices) return "size of one partition, in slices of one card";
  if (family.units_per_device > 1)
    return fmt::format("units of which a device has {}: 1 is a part of one, multiples of {} are whole devices",
                       family.units_per_device, family.units_per_device);
  std::string out = "devices";
  if (family.devices_per_module > 1)
    out += fmt::format("; 1 means all {} of a module, other numbers must be multiples", family.devices_per_module);
  if (family.several == catalog::Several::kWhole)
    out += "; more than 1 are whole, memory or cores beside it are refused";
  if (family.several == catalog::Several::kWholeOnly)
    out += "; more than 1 are whole, memory or cores beside it are refused unless they say so";
  return out;
}

std::string unit_of(int64_t bytes) {
  if (bytes == kMebibyte) return "MiB";
  if (bytes == kMebibyte * 1024) return "GiB";
  return fmt::format("{} MiB", bytes / kMebibyte);
}

std::string memory_meaning(const Family& family) {
  const catalog::MemoryKey& memory = *family.memory;
  std::string out = fmt::format("{} of each device", unit_of(memory.unit_bytes));
  if (memory.suffix_is_bytes) out += ", or bytes with a suffix that are whole MiB (512Mi)";
  if (!memory.values.empty()) out += fmt::format("; one of {}", fmt::join(memory.values, ", "));
  for (size_t i = 0; i < memory.steps.size(); ++i) {
    out += fmt::format("{} {} (with {} % of the compute)", i == 0 ? "; rounded up to" : ",", memory.steps[i].units,
                       memory.steps[i].cores);
  }
  if (!memory.steps.empty()) out += "; more is refused";
  if (memory.zero_is_unset) out += "; 0 is as if it were not there";
  if (!memory.note.empty()) out += "; " + memory.note;
  if (family.hard_split) out += "; rounded up to a template, see below";
  return out;
}

std::string cores_meaning(const catalog::CoresKey& cores) {
  std::string out = cores.to == 100
                        ? fmt::format("percent of each device, {} to 100", cores.from)
                        : fmt::format("parts of {} of each device, {} to {}", cores.to, cores.from, cores.to);
  switch (cores.default_cores) {
    case catalog::DefaultCores::kNone:
      return out + "; not written: no limit";
    case catalog::DefaultCores::kAll:
      return out + "; not written: all";
    case catalog::DefaultCores::kAllWithoutMemory:
      return out + "; not written: no limit, all where memory is not written either";
  }
  return out;
}

void add_restrictions(std::string& out, const catalog::Restrictions& lists) {
  const auto line = [&](const std::vector<std::string>& keys, const char* meaning) {
    if (!keys.empty()) out += fmt::format("| {} | {} |\n", code(keys), meaning);
  };
  line(lists.use_type, "only these product names");
  line(lists.nouse_type, "none of these product names");
  line(lists.use_uuid, "only these devices");
  line(lists.nouse_uuid, "none of these devices");
}

void add_family(std::string& out, const Family& family) {
  const auto line = [&](const std::vector<std::string>& keys, const std::string& meaning) {
    if (!keys.empty()) out += fmt::format("| {} | {} |\n", code(keys), meaning);
  };
  out += fmt::format("\n**{}: {}**\n\n| key | meaning |\n|---|---|\n", family.dialect, family.noun);
  line(family.count, count_meaning(family));
  if (family.memory) line(family.memory->keys, memory_meaning(family));
  line(family.percent, "percent of each device's memory, 1 to 100; 100 is the whole device; refused beside memory");
  if (family.cores)
    line(family.cores->keys, cores_meaning(*family.cores) + (family.hard_split ? "; only with the soft split" : ""));
  line(family.priority, "0 (high) or 1 (low: gives way); no device");
  add_restrictions(out, family.restrictions);
  if (!family.soft_split_annotation.empty()) {
    out += fmt::format(
        "| `{}: {}` | soft split: memory is exact, cores may be written; with several devices memory is refused |\n",
        family.soft_split_annotation, family.soft_split_value);
  }
  std::vector<std::string> notes = family.notes;
  if (!family.count.empty() && (family.memory || family.cores)) {
    notes.push_back(family.without_count == catalog::WithoutCount::kOneDevice
                        ? "Without a count: one device."
                        : fmt::format("Memory or cores without `{}` are refused.", family.count.front()));
  }
  for (const auto& [name, value] : family.environment) {
    notes.push_back(fmt::format("The container gets the variable `{}`, {}, unless it has one.", name,
                                value == "{container}"  ? "its own name"
                                : value == "{priority}" ? "the priority that is written"
                                                        : "\"" + value + "\""));
  }
  if (!family.models.empty()) notes.push_back(fmt::format("Only the model {}.", code(family.models)));
  if (!family.model_prefixes.empty())
    notes.push_back(fmt::format("Only models that begin with {}.", code(family.model_prefixes)));
  if (family.hard_split) {
    const catalog::HardSplit& split = *family.hard_split;
    std::vector<std::string> templates;
    templates.reserve(split.templates.size());
    for (const catalog::Template& one : split.templates)
      templates.push_back(fmt::format("{} ({} MiB, {} of {} AI cores)", one.name, one.mib, one.cores, split.cores));
    notes.push_back(fmt::format("Templates: {}; above them up to {} MiB a whole NPU with {} MiB; more is refused.",
                                fmt::join(templates, ", "), split.capacity_mib, split.whole_mib));
  }
  if (!notes.empty()) out += fmt::format("\n- {}\n", fmt::join(notes, "\n- "));
}

void add_vendor(std::string& out, const RequestVendor& vendor) {
  out += fmt::format("\n## {} (`{}`)\n\nSources: {}.\n", vendor.title, vendor.name, fmt::join(vendor.sources, "; "));
  for (const Family& family : vendor.families) add_family(out, family);
  for (const catalog::PartitionFamily& partition : vendor.partitions) {
    std::vector<std::string> keys;
    keys.reserve(partition.prefixes.size());
    for (const std::string& prefix : partition.prefixes) keys.push_back(prefix + "...");
    out += fmt::format("\n**{}**: {} are that many ready-made {}s of exactly the profile in the name.\n",
                       partition.dialect, code(keys), partition.noun);
    if (!partition.notes.empty()) out += fmt::format("\n- {}\n", fmt::join(partition.notes, "\n- "));
  }
  std::string annotations;
  add_restrictions(annotations, vendor.restrictions);
  if (!vendor.same_numa_node.empty())
    annotations +=
        fmt::format("| {} | `\"true\"`: all devices of a container on one NUMA node |\n", code(vendor.same_numa_node));
  if (!vendor.mode.empty()) {
    annotations += fmt::format(
        "| {} | `hami-core`: a soft share; `mig`: memory is a minimum, the smallest MIG partition of the card that "
        "holds it, cores follow; `mps`: NVIDIA's MPS holds the cores, 1 to 99 of which must be written |\n",
        code(vendor.mode));
  }
  for (const catalog::ChosenAnnotation& chosen : vendor.chosen) {
    annotations += fmt::format("| `{}` | {}; {}{} |\n", chosen.key, fmt::join(chosen.values, ", "), chosen.meaning,
                               chosen.one_device_only ? "; one device only" : "");
  }
  for (const std::string& kept : vendor.kept) annotations += fmt::format("| `{}` | a wish; passed on |\n", kept);
  if (!annotations.empty()) out += "\n| annotation | meaning |\n|---|---|\n" + annotations;
  if (!vendor.refused.empty()) out += "\n| refused | why | write instead |\n|---|---|---|\n";
  for (const catalog::RefusedKey& refused : vendor.refused)
    out += fmt::format("| `{}` | {} | {} |\n", refused.key, refused.why, refused.write);
}

}  // namespace

std::string dialects_markdown(const catalog::Requests& rules) {
  std::string out = kStart;
  for (const RequestVendor& vendor : rules.vendors()) add_vendor(out, vendor);
  return out;
}

}  // namespace heddle::dialects
