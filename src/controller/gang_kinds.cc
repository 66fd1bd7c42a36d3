#include "controller/gang_kinds.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/json_read.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;
constexpr Duration kTimeout = Duration::seconds(10);

struct Group {
  std::string_view name;
  std::string_view kind;  // empty: each that ends with Job
};
constexpr std::array<Group, 5> kGroups = {{{"scheduling.k8s.io", "PodGroup"},
                                           {"scheduling.volcano.sh", "PodGroup"},
                                           {"scheduling.x-k8s.io", "PodGroup"},
                                           {"jobset.x-k8s.io", "JobSet"},
                                           {"kubeflow.org", ""}}};

// The elements of an array of the object; none where it has none.
Json elements_of(const std::string& body, const char* name) {
  const Json object = parse_json(body);
  if (!object.is_object()) return Json::array();
  const auto it = object.find(name);
  return it != object.end() && it->is_array() ? *it : Json::array();
}

bool absent(const Error& error) {
  return error.code == Code::kNotFound;
}
bool forbidden(const Error& error) {
  return error.code == Code::kPermissionDenied;
}

// One round of questions, in three steps: the versions of the groups, the kinds of the versions, whether they may be
// listed. Answers come on the I/O thread while the step before may still be asking on another one.
class Search : public std::enable_shared_from_this<Search> {
 public:
  Search(kube::Client& client, std::function<void(Result<GangKinds>)> done) : client_(client), done_(std::move(done)) {}

  void begin() {
    step([this] {
      for (const Group& group : kGroups) {
        ask("/apis/" + std::string(group.name),
            [this, group](const Result<kube::Response>& answer) { group_answered(group, answer); });
      }
    });
  }

 private:
  using Answered = std::function<void(const Result<kube::Response>&)>;
  struct Version {
    Group group;
    std::string path;  // "/apis/jobset.x-k8s.io/v1alpha2"
    size_t rank = 0;   // the lowest is preferred
  };

  // What `asks` asks for makes one step; the next begins when all of it is answered.
  void step(const std::function<void()>& asks) {
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    asks();
    answered();
  }

  void ask(std::string path, Answered then) {
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    kube::Request request;
    request.path = std::move(path);
    request.timeout = kTimeout;
    client_.send(std::move(request),
                 [self = shared_from_this(), then = std::move(then)](const Result<kube::Response>& answer) {
                   then(answer);
                   self->answered();
                 });
  }

  void answered() {
    std::unique_lock lock(mutex_);
    if (--open_ > 0) return;
    const int finished = step_++;
    lock.unlock();
    if (failed_) return done_(tl::unexpected<Error>(*failed_));
    if (finished == 0) return step([this] { ask_versions(); });
    if (finished == 1) return step([this] { ask_lists(); });
    done_(std::move(found_));
  }

  // What neither answers nor says that there is nothing leaves the whole unknown.
  void note_failure(const std::string& what, const Error& error) {
    const std::lock_guard lock(mutex_);
    if (forbidden(error)) {
      found_.denied.insert(what);
    } else if (!absent(error) && !failed_) {
      failed_ = error;
    }
  }

  void group_answered(const Group& group, const Result<kube::Response>& answer) {
    if (!answer) return note_failure(std::string(group.name), answer.error());
    size_t rank = 0;
    const std::lock_guard lock(mutex_);
    for (const Json& version : elements_of(answer->body, "versions")) {
      const std::string group_version = json_text(version, "groupVersion");
      if (!group_version.empty()) versions_.push_back({group, "/apis/" + group_version, rank++});
    }
  }

  void ask_versions() {
    for (const Version& version : std::vector<Version>(versions_)) {
      ask(version.path, [this, version](const Result<kube::Response>& answer) { version_answered(version, answer); });
    }
  }

  void version_answered(const Version& version, const Result<kube::Response>& answer) {
    if (!answer) return note_failure(std::string(version.group.name), answer.error());
    const std::lock_guard lock(mutex_);
    for (const Json& resource : elements_of(answer->body, "resources")) {
      const std::string kind = json_text(resource, "kind");
      const std::string plural = json_text(resource, "name");
      const bool wanted = version.group.kind.empty() ? kind.ends_with("Job") : kind == version.group.kind;
      if (!wanted || plural.empty() || plural.find('/') != std::string::npos) continue;
      const GangKind found{std::string(version.group.name) + "/" + kind, version.path + "/" + plural};
      const auto [it, fresh] = kinds_.try_emplace(found.object_kind, version.rank, found);
      if (!fresh && version.rank < it->second.first) it->second = {version.rank, found};
    }
  }

  void ask_lists() {
    const auto kinds = kinds_;
    for (const auto& [name, ranked] : kinds) {
      ask(ranked.second.path + "?limit=1", [this, kind = ranked.second](const Result<kube::Response>& answer) {
        if (!answer && (absent(answer.error()) || forbidden(answer.error())))
          return note_failure(kind.object_kind, answer.error());
        const std::lock_guard lock(mutex_);
        readable_.emplace(kind.object_kind, kind);
        found_.readable.clear();
        for (const auto& [object_kind, one] : readable_) found_.readable.push_back(one);
      });
    }
  }

  kube::Client& client_;
  std::function<void(Result<GangKinds>)> done_;
  std::mutex mutex_;
  int open_ = 0;
  int step_ = 0;
  std::vector<Version> versions_;
  std::map<std::string, std::pair<size_t, GangKind>> kinds_;  // object kind -> rank of its version
  std::map<std::string, GangKind> readable_;
  std::optional<Error> failed_;
  GangKinds found_;
};

}  // namespace

void find_gang_kinds(kube::Client& client, std::function<void(Result<GangKinds>)> done) {
  std::make_shared<Search>(client, std::move(done))->begin();
}

}  // namespace heddle::controller
