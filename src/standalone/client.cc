#include "standalone/client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "standalone/state_dir.h"

namespace heddle::standalone {
namespace {

using Json = nlohmann::json;

size_t append(const char* data, size_t size, size_t count, void* out) {
  static_cast<std::string*>(out)->append(data, size * count);
  return size * count;
}

struct CloseCurl {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Code code_of(int64_t status) {
  switch (status) {
    case 400:
      return Code::kInvalidArgument;
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kConflict;
    case 503:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

Error error_of(int64_t status, const std::string& body) {
  const auto json = parse_json(body);
  Error error;
  error.code = code_of(status);
  error.message = fmt::format("Heddle answered with status {}", status);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    error.message = json["error"].value("message", error.message);
    error.field = json["error"].value("field", std::string());
  }
  return error;
}

tl::unexpected<Error> strange_answer() {
  return fail(Code::kInternal, "Heddle gave an answer that this version does not understand");
}

tl::unexpected<Error> not_allowed(const std::string& socket) {
  return fail(
      Code::kPermissionDenied,
      fmt::format("you may not use the Heddle in {}: its owner lets others in with `heddle up --group`; your own "
                  "is started with `heddle up`",
                  socket.substr(0, socket.rfind('/'))));
}

std::vector<engine::Reason> reasons_of(const Json& list) {
  std::vector<engine::Reason> reasons;
  for (const auto& reason : list) reasons.push_back({reason.value("code", ""), reason.value("message", "")});
  return reasons;
}

Result<JobStatus> parse_job(const std::string& body) {
  try {
    const auto json = parse_json(body);
    JobStatus job;
    job.id = json.at("id").get<int64_t>();
    job.name = json.at("name").get<std::string>();
    HEDDLE_TRY(job.state, parse_state(json.at("state").get<std::string>()));
    job.position = json.value("position", int64_t{0});
    if (const auto queue = json.find("queue"); queue != json.end() && queue->is_string()) job.queue = *queue;
    job.reasons = reasons_of(json.at("reasons"));
    if (json.at("exitCode").is_number_integer()) job.exit_code = json["exitCode"].get<int64_t>();
    job.outcome = json.value("outcome", "");
    if (const auto why = json.find("evictedWhy"); why != json.end() && why->is_string()) job.evicted_why = *why;
    if (const auto why = json.find("ending"); why != json.end() && why->is_string()) job.ending = *why;
    return job;
  } catch (const Json::exception&) {
    return strange_answer();
  }
}

tl::unexpected<Error> not_there(const std::string& socket) {
  const std::string daemon = serving_process(state_paths(socket.substr(0, socket.rfind('/'))));
  if (!daemon.empty()) {
    return fail(Code::kUnavailable,
                fmt::format("Heddle runs here (process {}), but somebody removed its socket {}: `kill {}` ends it and "
                            "leaves its jobs running, and `heddle up` serves them again",
                            daemon, socket, daemon));
  }
  return fail(Code::kNotFound,
              fmt::format("Heddle is not running here ({} does not exist): start it with `heddle up`", socket));
}

}  // namespace

Result<Client::Reply> Client::exchange(const std::string& method, const std::string& path, const std::string& body) {
  const Presence presence = presence_of(socket_);
  if (presence == Presence::kHidden) return not_allowed(socket_);
  if (presence == Presence::kNone) return not_there(socket_);
  const std::unique_ptr<CURL, CloseCurl> handle(curl_easy_init());
  if (!handle) return fail(Code::kInternal, "libcurl could not be set up");
  const std::unique_ptr<curl_slist, FreeList> headers(curl_slist_append(nullptr, "Content-Type: application/json"));
  Reply reply;
  const std::string url = "http://localhost" + path;
  curl_easy_setopt(handle.get(), CURLOPT_UNIX_SOCKET_PATH, socket_.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT, 30L);
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  if (method == "POST") {
    curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(handle.get(), CURLOPT_COPYPOSTFIELDS, body.c_str());
  }
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &append);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &reply.body);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code == CURLE_COULDNT_CONNECT && access(socket_.c_str(), R_OK | W_OK) != 0) {
    return not_allowed(socket_);
  }
  long os_error = 0;  // NOLINT(google-runtime-int): libcurl's type
  curl_easy_getinfo(handle.get(), CURLINFO_OS_ERRNO, &os_error);
  if (code == CURLE_COULDNT_CONNECT && os_error == ECONNREFUSED) {
    return fail(Code::kUnavailable,
                fmt::format("Heddle is not running any more, though nobody stopped it ({} is left): "
                            "`heddle up` starts it again, with the jobs that it had",
                            socket_));
  }
  if (code != CURLE_OK) {
    return fail(Code::kUnavailable, fmt::format("Heddle does not answer on {}: {}", socket_, curl_easy_strerror(code)));
  }
  long status = 0;  // NOLINT(google-runtime-int): libcurl's type
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  reply.status = status;
  return reply;
}

Result<std::string> Client::call(const std::string& method, const std::string& path, const std::string& body) {
  HEDDLE_TRY(auto reply, exchange(method, path, body));
  if (reply.status / 100 == 2) return std::move(reply.body);
  return tl::unexpected<Error>(error_of(reply.status, reply.body));
}

Result<std::variant<JobStatus, Rejected>> Client::submit(const JobRequest& request, int64_t client_pid) {
  const std::string body = fmt::format(R"({{"request":{},"client":{{"pid":{}}}}})", request_json(request), client_pid);
  HEDDLE_TRY(const auto reply, exchange("POST", "/v1/jobs", body));
  if (reply.status == 422) {
    const auto json = parse_json(reply.body);
    if (!json.is_object() || !json.contains("refused")) return strange_answer();
    return Rejected{reasons_of(json["refused"])};
  }
  if (reply.status / 100 != 2) return tl::unexpected<Error>(error_of(reply.status, reply.body));
  HEDDLE_TRY(auto job, parse_job(reply.body));
  return job;
}

Result<JobStatus> Client::job(int64_t id) {
  HEDDLE_TRY(const auto body, call("GET", fmt::format("/v1/jobs/{}", id)));
  return parse_job(body);
}

Result<LaunchReply> Client::launch(int64_t id) {
  HEDDLE_TRY(const auto body, call("POST", fmt::format("/v1/jobs/{}/launch", id), "{}"));
  try {
    const auto json = parse_json(body);
    return LaunchReply{json.at("environment").get<std::map<std::string, std::string>>(),
                       json.at("folder").get<std::string>()};
  } catch (const Json::exception&) {
    return strange_answer();
  }
}

Result<void> Client::start(int64_t id, int64_t runner_pid) {
  HEDDLE_CHECK_OK(
      call("POST", fmt::format("/v1/jobs/{}/start", id), fmt::format(R"({{"runner":{{"pid":{}}}}})", runner_pid)));
  return {};
}

Result<void> Client::cancel(const std::string& id_or_name, const std::string& why) {
  Json body = Json::object();
  if (!why.empty()) body["why"] = why;
  HEDDLE_CHECK_OK(call("POST", fmt::format("/v1/jobs/{}/cancel", escape(id_or_name)), dump_json(body)));
  return {};
}

Result<std::optional<StillBusy>> Client::shut_down(ShutDown how) {
  const char* body = how == ShutDown::kEndJobs ? R"({"endJobs":true})" : "{}";
  HEDDLE_TRY(const auto reply, exchange("POST", "/v1/shutdown", body));
  if (reply.status / 100 == 2) return std::optional<StillBusy>();
  const auto json = parse_json(reply.body);
  if (reply.status == 409 && json.is_object() && json.contains("running")) {
    return std::optional<StillBusy>(StillBusy{json.value("running", int64_t{0}), json.value("waiting", int64_t{0})});
  }
  return tl::unexpected<Error>(error_of(reply.status, reply.body));
}

Result<std::string> Client::status_json() {
  return call("GET", "/v1/status");
}

Result<std::string> Client::job_json(const std::string& id_or_name) {
  return call("GET", "/v1/jobs/" + escape(id_or_name));
}

}  // namespace heddle::standalone
