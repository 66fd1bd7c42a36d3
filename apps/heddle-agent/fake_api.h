// An API server for one test: objects in memory, lists, watches, and the few writes that an agent makes.
#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kube/testing.h"

namespace heddle::agent::testing {

class FakeApi {
 public:
  using json = nlohmann::json;
  using Objects = std::map<std::string, json>;  // by path: "/api/v1/nodes/n"

  [[nodiscard]] std::string url() const { return server_.url(); }

  void put(const std::string& path, json object) {
    const std::lock_guard lock(mutex_);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    const bool known = objects_.contains(path);
    objects_[path] = object;
    history_.push_back({version_, known ? "MODIFIED" : "ADDED", path, std::move(object)});
  }
  bool remove(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(path);
    if (found == objects_.end()) return false;
    json object = found->second;
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    history_.push_back({version_, "DELETED", path, std::move(object)});
    objects_.erase(found);
    return true;
  }
  [[nodiscard]] Objects list(const std::string& prefix) const {
    const std::lock_guard lock(mutex_);
    Objects found;
    for (const auto& [path, object] : objects_) {
      if (path.starts_with(prefix)) found.emplace(path, object);
    }
    return found;
  }
  // The next object that is created is deleted before its creator has the answer.
  void wipe_next_before_its_answer() {
    const std::lock_guard lock(mutex_);
    wipe_next_ = true;
  }
  [[nodiscard]] int64_t slice_writes() const {
    const std::lock_guard lock(mutex_);
    return slice_writes_;
  }

 private:
  struct Change {
    int64_t version;
    std::string type;
    std::string path;
    json object;
  };

  static std::string query_value(const std::string& query, const std::string& name) {
    const size_t at = query.find(name + "=");
    if (at == std::string::npos) return {};
    const std::string rest = query.substr(at + name.size() + 1);
    return rest.substr(0, rest.find('&'));
  }

  void serve(kube::testing::RawConnection& connection) {
    while (true) {
      const std::string request = connection.read_request();
      if (request.empty()) return;
      const size_t first = request.find(' ');
      const size_t second = request.find(' ', first + 1);
      const std::string method = request.substr(0, first);
      const std::string target = request.substr(first + 1, second - first - 1);
      const std::string path = target.substr(0, target.find('?'));
      const std::string query = target.substr(std::min(path.size(), target.size()));
      const std::string body = request.substr(request.find("\r\n\r\n") + 4);
      if (method == "GET" && query.find("watch=") != std::string::npos) {
        stream(connection, path, query_value(query, "resourceVersion"));
        return;
      }
      const auto [status, text] = method == "GET" ? read(path) : write(method, path, body);
      if (!connection.reply(status, text)) return;
    }
  }

  std::pair<int, std::string> read(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    if (const auto found = objects_.find(path); found != objects_.end()) return {200, found->second.dump()};
    const bool collection = path.ends_with("/nodes") || path.ends_with("/pods") || path.ends_with("/resourceslices");
    if (!collection) return {404, R"({"kind":"Status","reason":"NotFound","message":"not found"})"};
    json items = json::array();
    for (const auto& [key, object] : objects_) {
      if (is_in(path, key)) items.push_back(object);
    }
    return {200, json{{"kind", "List"},
                      {"metadata", {{"resourceVersion", std::to_string(version_)}}},
                      {"items", std::move(items)}}
                     .dump()};
  }

  // A list over all namespaces holds the objects of each.
  static bool is_in(const std::string& collection, const std::string& path) {
    if (path.starts_with(collection + "/")) return true;
    return collection == "/api/v1/pods" && path.starts_with("/api/v1/namespaces/") &&
           path.find("/pods/") != std::string::npos;
  }

  std::pair<int, std::string> write(const std::string& method, const std::string& path, const std::string& body) {
    if (method == "DELETE") {
      count(path);
      return remove(path) ? std::pair(200, std::string("{}")) : std::pair(404, std::string("{}"));
    }
    const json object = json::parse(body);
    const std::string own = method == "POST" ? path + "/" + object.at("metadata").at("name").get<std::string>() : path;
    if (method == "POST" && !list(own).empty()) {
      return {409, R"({"kind":"Status","reason":"AlreadyExists","message":"exists"})"};
    }
    count(path);
    put(own, object);
    const std::string answer = list(own).at(own).dump();
    if (method == "POST" && take_wipe()) {
      ::usleep(20'000);  // so that the streams tell of the one and of the other
      remove(own);
      ::usleep(100'000);
    }
    return {method == "POST" ? 201 : 200, answer};
  }

  bool take_wipe() {
    const std::lock_guard lock(mutex_);
    return std::exchange(wipe_next_, false);
  }

  void count(const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (path.find("resourceslices") != std::string::npos) ++slice_writes_;
  }

  void stream(kube::testing::RawConnection& connection, const std::string& path, const std::string& since) {
    int64_t seen = since.empty() ? 0 : std::stoll(since);
    if (!connection.start_stream()) return;
    while (!connection.stopping()) {
      std::string text;
      {
        const std::lock_guard lock(mutex_);
        for (const Change& change : history_) {
          if (change.version > seen && is_in(path, change.path)) {
            text += json{{"type", change.type}, {"object", change.object}}.dump() + "\n";
          }
        }
        seen = version_;
      }
      if (!text.empty() && !connection.send_chunk(text)) return;
      ::usleep(5000);
    }
  }

  mutable std::mutex mutex_;
  Objects objects_;
  std::vector<Change> history_;
  int64_t version_ = 100;
  int64_t slice_writes_ = 0;
  bool wipe_next_ = false;
  kube::testing::RawServer server_{[this](kube::testing::RawConnection& connection) { serve(connection); }};
};

}  // namespace heddle::agent::testing
