#include "cli/queue_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/json.h"
#include "cli/json_at.h"
#include "cli/layout.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kCondition = "heddle.dev/Allocated";
constexpr const char* kUnassigned = "unassigned";  // no object stands for it

int64_t number_at(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  return object.contains(path) && object.at(path).is_number_integer() ? object.at(path).get<int64_t>() : 0;
}

Json list_at(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  return object.contains(path) && object.at(path).is_array() ? object.at(path) : Json::array();
}

Json condition_of(const Json& object, const std::string& type) {
  for (const Json& condition : list_at(object, "/status/conditions")) {
    if (text_at(condition, "/type") == type) return condition;
  }
  return Json::object();
}

struct WaitingPod {
  std::string pod;
  std::string queue;
  int64_t position = 0;  // 0: behind those that are numbered
  std::string reason;
  std::string message;
};

// "...; number 3 in queue a": as the controller writes it at the end of the condition.
std::optional<WaitingPod> waiting_of(const Json& pod) {
  const Json condition = condition_of(pod, kCondition);
  if (text_at(condition, "/status") != "False") return std::nullopt;
  WaitingPod out;
  out.pod = text_at(pod, "/metadata/namespace") + "/" + text_at(pod, "/metadata/name");
  out.reason = text_at(condition, "/reason");
  out.message = text_at(condition, "/message");
  constexpr std::string_view kIn = " in queue ";
  const size_t in = out.message.rfind(kIn);
  if (in == std::string::npos) return std::nullopt;
  out.queue = out.message.substr(in + kIn.size());
  constexpr std::string_view kNumber = "number ";
  const size_t number = out.message.rfind(kNumber, in);
  const size_t last = out.message.rfind("; ", in);
  if (number != std::string::npos && (last == std::string::npos || number > last)) {
    for (size_t at = number + kNumber.size(); at < in && out.message[at] >= '0' && out.message[at] <= '9'; ++at)
      out.position = out.position * 10 + (out.message[at] - '0');
  }
  out.message = last == std::string::npos ? std::string() : out.message.substr(0, last);
  return out;
}

class Tree {
 public:
  explicit Tree(const Json& list) {
    for (const Json& queue : list_at(list, "/items")) queues_[text_at(queue, "/metadata/name")] = queue;
    for (const auto& [name, queue] : queues_) {
      const std::string parent = text_at(queue, "/spec/parent");
      children_[queues_.contains(parent) ? parent : std::string()].push_back(name);
    }
  }

  [[nodiscard]] bool has(const std::string& name) const { return queues_.contains(name); }
  [[nodiscard]] const std::map<std::string, Json>& all() const { return queues_; }
  [[nodiscard]] const Json& at(const std::string& name) const { return queues_.at(name); }

  // Parents before children; a ring is not reached from the top, and comes at the end. top: empty for all.
  [[nodiscard]] std::vector<std::pair<std::string, int>> order(const std::string& top) const {
    std::vector<std::pair<std::string, int>> out;
    std::set<std::string> seen;
    if (!top.empty()) {
      walk(top, 0, out, seen);
      return out;
    }
    const auto tops = children_.find("");
    if (tops != children_.end()) {
      for (const std::string& name : tops->second) walk(name, 0, out, seen);
    }
    for (const auto& [name, queue] : queues_) walk(name, 0, out, seen);
    return out;
  }

 private:
  void walk(const std::string& name, int depth, std::vector<std::pair<std::string, int>>& out,
            std::set<std::string>& seen) const {
    if (!queues_.contains(name)) return;
    if (!seen.insert(name).second) return;
    out.emplace_back(name, depth);
    const auto below = children_.find(name);
    if (below == children_.end()) return;
    for (const std::string& child : below->second) walk(child, depth + 1, out, seen);
  }

  std::map<std::string, Json> queues_;
  std::map<std::string, std::vector<std::string>> children_;
};

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string table(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string tree_table(const Tree& tree, const std::string& top) {
  std::vector<std::vector<std::string>> rows{
      {"QUEUE", "WEIGHT", "RUNNING", "WAITING", "COUNTED", "USED", "ENTITLED", "GUARANTEED", "LIMIT", "IN FORCE"}};
  std::string troubles;
  for (const auto& [name, depth] : tree.order(top)) {
    const Json& queue = tree.at(name);
    const Json in_force = condition_of(queue, "InForce");
    const std::string state = text_at(in_force, "/status");
    std::vector<std::string> head{std::string(static_cast<size_t>(depth) * 2, ' ') + name,
                                  std::to_string(std::max<int64_t>(number_at(queue, "/spec/weight"), 1)),
                                  std::to_string(number_at(queue, "/status/running")),
                                  std::to_string(number_at(queue, "/status/waiting"))};
    const std::string good = state == "True" ? "yes" : state == "False" ? "no" : "not looked at yet";
    if (state == "False")
      troubles += printable(fmt::format("queue {}: {}", name, text_at(in_force, "/message"))) + "\n";
    const Json usage = list_at(queue, "/status/usage");
    if (usage.empty()) rows.push_back({head[0], head[1], head[2], head[3], "-", "-", "-", "-", "-", good});
    bool first = true;
    for (const Json& entry : usage) {
      std::vector<std::string> row = first ? head : std::vector<std::string>{"", "", "", ""};
      for (const char* field : {"/name", "/used", "/entitled", "/guaranteed", "/limit"})
        row.push_back(or_dash(text_at(entry, field)));
      row.push_back(first ? good : "");
      rows.push_back(std::move(row));
      first = false;
    }
  }
  return table(rows) + (troubles.empty() ? "" : "\n" + troubles);
}

std::vector<WaitingPod> waiting_in(const Json& pods, const Tree& tree, const std::string& top) {
  std::set<std::string> names;
  if (top == kUnassigned) names.insert(top);
  for (const auto& [name, depth] : tree.order(top)) names.insert(name);
  std::vector<WaitingPod> out;
  for (const Json& pod : list_at(pods, "/items")) {
    if (auto waiting = waiting_of(pod); waiting && names.contains(waiting->queue)) out.push_back(std::move(*waiting));
  }
  std::sort(out.begin(), out.end(), [](const WaitingPod& a, const WaitingPod& b) {
    return std::tuple(a.queue, a.position == 0, a.position, a.pod) <
           std::tuple(b.queue, b.position == 0, b.position, b.pod);
  });
  return out;
}

std::string waiting_text(const std::vector<WaitingPod>& waiting) {
  if (waiting.empty()) return "\nNothing waits.\n";
  std::vector<std::vector<std::string>> rows{{"QUEUE", "POSITION", "POD", "REASON", "WHY"}};
  for (const WaitingPod& pod : waiting) {
    rows.push_back(
        {pod.queue, pod.position == 0 ? "later" : std::to_string(pod.position), pod.pod, pod.reason, pod.message});
  }
  return "\n" + table(rows);
}

std::string as_json(const Tree& tree, const std::string& top, const std::vector<WaitingPod>& waiting) {
  Json queues = Json::array();
  for (const auto& [name, depth] : tree.order(top)) {
    const Json& queue = tree.at(name);
    const Json in_force = condition_of(queue, "InForce");
    queues.push_back({{"name", name},
                      {"parent", text_at(queue, "/spec/parent")},
                      {"weight", std::max<int64_t>(number_at(queue, "/spec/weight"), 1)},
                      {"running", number_at(queue, "/status/running")},
                      {"waiting", number_at(queue, "/status/waiting")},
                      {"usage", list_at(queue, "/status/usage")},
                      {"inForce", text_at(in_force, "/status") == "True"},
                      {"message", text_at(in_force, "/message")}});
  }
  Json pods = Json::array();
  for (const WaitingPod& pod : waiting) {
    Json entry{{"pod", pod.pod}, {"queue", pod.queue}, {"reason", pod.reason}, {"message", pod.message}};
    entry["position"] = pod.position == 0 ? Json() : Json(pod.position);
    pods.push_back(std::move(entry));
  }
  return dump_json(Json{{"queues", queues}, {"pods", pods}}) + "\n";
}

}  // namespace

Result<std::string> queue_text(const std::string& queues_json, const std::string& pods_json, const std::string& name,
                               Output output) {
  const Json list = parse_json(queues_json);
  const Json pods = pods_json.empty() ? Json::object() : parse_json(pods_json);
  if (!list.is_object() || !pods.is_object()) return fail(Code::kInternal, "the API server's answer is not JSON");
  const Tree tree(list);
  const bool unassigned = name == kUnassigned && !tree.has(name);
  if (!name.empty() && !unassigned && !tree.has(name)) {
    std::vector<std::string> names;
    for (const auto& [known, queue] : tree.all()) names.push_back(known);
    return fail(Code::kNotFound,
                fmt::format("there is no queue {}{}", name,
                            names.empty() ? "" : fmt::format("; there are {}", fmt::join(names, ", "))));
  }
  const std::vector<WaitingPod> waiting = waiting_in(pods, tree, name);
  if (output == Output::kJson) return as_json(tree, name, waiting);
  if (unassigned) {
    const std::string what =
        tree.all().empty() ? "There is no AcceleratorQueue: all work is in queue unassigned, by priority and age.\n"
                           : "unassigned: work of namespaces that no queue names. It has no guarantee: it borrows, "
                             "and gives way.\n";
    return what + waiting_text(waiting);
  }
  if (tree.all().empty()) return std::string("There is no AcceleratorQueue: pods start by priority and age.\n");
  return tree_table(tree, name) + (name.empty() ? std::string() : waiting_text(waiting));
}

}  // namespace heddle::cli
