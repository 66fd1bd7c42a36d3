#include "dialects/kai.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/quantity.h"
#include "dialects/family.h"

namespace heddle::dialects {
namespace {

constexpr const char* kFraction = "gpu-fraction";
constexpr const char* kMemory = "gpu-memory";
constexpr const char* kDevices = "gpu-fraction-num-devices";
constexpr const char* kContainer = "gpu-fraction-container-name";
constexpr const char* kMps = "mps";
constexpr std::array kKeys = {kFraction, kMemory, kDevices, kContainer};

class KaiReader {
 public:
  KaiReader(const Annotations& annotations, const KaiPod& pod, std::vector<Refusal>& refusals)
      : annotations_(annotations), pod_(pod), refusals_(refusals), before_(refusals.size()) {}

  std::optional<KaiAsk> run() {
    const std::string* fraction = value(kFraction);
    const std::string* memory = value(kMemory);
    check_company(fraction, memory);
    if (fraction == nullptr && memory == nullptr) return std::nullopt;
    if (fraction != nullptr) read_fraction(*fraction);
    if (memory != nullptr) ask_.memory_mib = whole_number(kMemory, *memory, kMaxUnits, "MiB, such as 4096");
    ask_.count = 1;
    if (const std::string* devices = value(kDevices); devices != nullptr)
      ask_.count = whole_number(kDevices, *devices, kMaxDevices, "different devices, at most 32");
    std::string container = choose_container();
    if (refusals_.size() != before_) return std::nullopt;
    ask_.name = "gpu";
    ask_.vendor = "nvidia";
    ask_.kind = Ask::Kind::kShare;
    std::string wrote;
    for (const char* key : kKeys) {
      if (const std::string* text = value(key); text != nullptr)
        wrote += fmt::format("{}{}={}", wrote.empty() ? "" : ", ", key, *text);
    }
    KaiAsk out{std::move(container), ask_, fmt::format("KAI: {}: {}", wrote, describe(ask_, "NVIDIA GPU")), {}};
    if (value(kMps) != nullptr && *value(kMps) == "true") {
      out.warnings.emplace_back(
          "annotation mps: it names no part of the SMs, so the share is isolated by Heddle's guard; for MPS write a "
          "claim "
          "with cores of 1 to 99 whose ShareConfig says isolation: mps");
    }
    return out;
  }

 private:
  [[nodiscard]] const std::string* value(const char* key) const {
    const auto it = annotations_.find(key);
    return it == annotations_.end() ? nullptr : &it->second;
  }

  void refuse(const char* key, std::string_view message) {
    refusals_.push_back({fmt::format("metadata.annotations[{}]", key),
                         fmt::format("{}: \"{}\": {}", key, value(key) == nullptr ? "" : *value(key), message)});
  }

  void check_company(const std::string* fraction, const std::string* memory) {
    if (fraction != nullptr && memory != nullptr) refuse(kMemory, "given together with gpu-fraction; write only one");
    const char* first = fraction != nullptr ? kFraction : kMemory;
    if ((fraction != nullptr || memory != nullptr) && !pod_.gpu_key.empty()) {
      refuse(first,
             fmt::format("a container of the pod asks for {} too, and the two cannot be in one pod; write only one",
                         pod_.gpu_key));
    }
    if (fraction != nullptr || memory != nullptr) {
      if (const std::string* mps = value(kMps); mps != nullptr && *mps == "true" && fraction == nullptr)
        refuse(kMps, "it goes with gpu-fraction only; write gpu-fraction, or remove it");
      return;
    }
    for (const char* key : {kDevices, kContainer}) {
      if (value(key) != nullptr)
        refuse(key, "it goes with gpu-fraction or gpu-memory; write one of them, or remove it");
    }
    if (const std::string* mps = value(kMps); mps != nullptr && *mps == "true")
      refuse(kMps, "it goes with gpu-fraction only; write gpu-fraction, or remove it");
  }

  // Exact: hundredths, or a refusal.
  void read_fraction(const std::string& text) {
    constexpr Int128 kWhole = 1'000'000'000;
    const bool plain = !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
    const Result<Quantity> quantity = Quantity::parse(text);
    const std::optional<Int128> nano = plain && quantity ? quantity->nano_value() : std::nullopt;
    if (!nano || *nano <= 0 || *nano >= kWhole) {
      refuse(kFraction,
             "write a number above 0 and below 1, such as 0.5; for whole GPUs write the resource nvidia.com/gpu");
      return;
    }
    if (*nano % (kWhole / 100) != 0) {
      const auto down = static_cast<int64_t>(*nano / (kWhole / 100));
      refuse(kFraction,
             fmt::format("a share is a whole percentage of the device's memory; write {}, or gpu-memory in MiB",
                         down == 0    ? "0.01"
                         : down == 99 ? "0.99"
                                      : fmt::format("0.{:02} or 0.{:02}", down, down + 1)));
      return;
    }
    ask_.percent = static_cast<int64_t>(*nano / (kWhole / 100));
  }

  int64_t whole_number(const char* key, const std::string& text, int64_t most, std::string_view what) {
    int64_t number = 0;
    const bool digits = !text.empty() && text.size() <= 10 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      for (const char c : text) number = number * 10 + (c - '0');
    }
    if (number < 1 || number > most) {
      refuse(key, fmt::format("write a plain whole number of {}", what));
      return 1;
    }
    return number;
  }

  std::string choose_container() {
    const std::string* name = value(kContainer);
    if (name == nullptr) return pod_.containers.empty() ? std::string() : pod_.containers.front();
    for (const auto* list : {&pod_.init_containers, &pod_.containers}) {
      if (std::find(list->begin(), list->end(), *name) != list->end()) return *name;
    }
    refuse(kContainer, "the pod has no such container; write the name of one, or remove it for the first one");
    return {};
  }

  const Annotations& annotations_;
  const KaiPod& pod_;
  std::vector<Refusal>& refusals_;
  size_t before_;
  Ask ask_;
};

}  // namespace

bool has_kai_annotation(const Annotations& annotations) {
  return std::any_of(kKeys.begin(), kKeys.end(), [&](const char* key) { return annotations.contains(key); }) ||
         annotations.contains(kMps);
}

std::optional<KaiAsk> read_kai(const Annotations& annotations, const KaiPod& pod, std::vector<Refusal>& refusals) {
  return KaiReader(annotations, pod, refusals).run();
}

}  // namespace heddle::dialects
