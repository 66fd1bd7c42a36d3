#include "standalone/api.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "standalone/page.h"
#include "standalone/process.h"

namespace heddle::standalone {
namespace {

using Json = nlohmann::ordered_json;
using kube::HttpRequest;
using kube::HttpResponse;

constexpr size_t kMaxWhy = 200;

HttpResponse json_response(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

int http_status(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kPermissionDenied:
      return 403;
    case Code::kAlreadyExists:
    case Code::kConflict:
      return 409;
    case Code::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

HttpResponse error_response(const Error& error) {
  Json out;
  out["error"] = {{"code", code_name(error.code)}, {"message", error.message}, {"field", error.field}};
  return json_response(http_status(error.code), dump_json(out));
}

HttpResponse error_response(Code code, std::string message) {
  return error_response(Error{code, std::move(message), {}});
}

bool may_act_on_all(const HttpRequest& request) {
  return request.peer_uid == 0 || request.peer_uid == static_cast<int64_t>(geteuid());
}

// By name, the primary one first.
std::vector<std::string> groups_of(const char* user, gid_t primary) {
  std::array<gid_t, 256> ids{};
  int count = static_cast<int>(ids.size());
  if (getgrouplist(user, primary, ids.data(), &count) < 0) count = static_cast<int>(ids.size());
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    group entry{};
    group* found = nullptr;
    std::vector<char> buffer(size_t{1} << 16);
    if (getgrgid_r(ids.at(static_cast<size_t>(i)), &entry, buffer.data(), buffer.size(), &found) == 0 &&
        found != nullptr) {
      names.emplace_back(found->gr_name);
    }
  }
  return names;
}

Owner owner_of(int64_t uid) {
  Owner owner{uid, 0, fmt::format("{}", uid)};
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    owner.name = found->pw_name;
    owner.gid = static_cast<int64_t>(found->pw_gid);
    owner.groups = groups_of(found->pw_name, found->pw_gid);
  }
  return owner;
}

// The process that the peer names as its own: it must run as the peer's user.
Result<ProcessId> process_of_peer(const HttpRequest& request, const Json& body, const char* field) {
  const auto found = body.find(field);
  if (found == body.end() || !found->is_object() || !found->contains("pid") || !(*found)["pid"].is_number_integer()) {
    return fail(Code::kInvalidArgument, "must be an object with a pid", field);
  }
  HEDDLE_TRY(ProcessId process, identify((*found)["pid"].get<int64_t>()));
  HEDDLE_TRY(const int64_t user, user_of(process.pid));
  if (user != request.peer_uid && !may_act_on_all(request)) {
    return fail(Code::kPermissionDenied, fmt::format("process {} is not yours", process.pid), field);
  }
  return process;
}

HttpResponse submit(Daemon& daemon, const HttpRequest& request) {
  const auto body = parse_ordered_json(request.body);
  if (!body.is_object() || !body.contains("request")) {
    return error_response(Code::kInvalidArgument, "the body must be an object with `request` and `client`");
  }
  auto wanted = parse_request(dump_json(body["request"]));
  if (!wanted) return error_response(wanted.error());
  // Limits of another user can be put out of their reach by root only.
  if (geteuid() != 0 && request.peer_uid != static_cast<int64_t>(geteuid())) {
    return error_response(
        Code::kPermissionDenied,
        fmt::format("this Heddle was started by {} and runs commands of that user only; one that root "
                    "starts runs everybody's",
                    owner_of(static_cast<int64_t>(geteuid())).name));
  }
  auto client = process_of_peer(request, body, "client");
  if (!client) return error_response(client.error());
  auto outcome = daemon.submit(*wanted, *client, owner_of(request.peer_uid));
  if (!outcome) return error_response(outcome.error());
  if (const auto* job = std::get_if<JobView>(&*outcome); job != nullptr) return json_response(201, job_view_json(*job));
  Json out;
  out["refused"] = Json::array();
  for (const auto& reason : std::get<Refused>(*outcome).reasons) {
    out["refused"].push_back({{"code", reason.code}, {"message", reason.message}});
  }
  return json_response(422, dump_json(out));
}

HttpResponse launch(Daemon& daemon, int64_t id) {
  const auto found = daemon.launch(id);
  if (!found) return error_response(found.error());
  Json out;
  out["environment"] = found->environment;
  out["folder"] = found->folder;
  return json_response(200, dump_json(out));
}

HttpResponse act(Daemon& daemon, const HttpRequest& request, const JobView& job, const std::string& verb) {
  if (!may_act_on_all(request) && request.peer_uid != job.job.owner.uid) {
    return error_response(Code::kPermissionDenied, fmt::format("job {} belongs to {}", job.job.id, job.job.owner.name));
  }
  if (verb == "launch") return launch(daemon, job.job.id);
  Result<void> done;
  if (verb == "start") {
    const auto body = parse_ordered_json(request.body);
    if (!body.is_object()) return error_response(Code::kInvalidArgument, "the body must be an object with `runner`");
    auto runner = process_of_peer(request, body, "runner");
    if (!runner) return error_response(runner.error());
    done = daemon.start(job.job.id, *runner);
  } else if (verb == "cancel") {
    const auto body = parse_ordered_json(request.body);
    const auto why = body.is_object() ? body.value("why", Json()) : Json();
    done = daemon.cancel(job.job.id, why.is_string() ? cut_text(why.get<std::string>(), kMaxWhy)
                                                     : "cancelled by " + owner_of(request.peer_uid).name);
  } else {
    return error_response(Code::kNotFound, fmt::format("jobs have no '{}'", verb));
  }
  if (!done) return error_response(done.error());
  return json_response(200, "{}");
}

HttpResponse shut_down(Daemon& daemon, const HttpRequest& request) {
  if (!may_act_on_all(request)) {
    return error_response(Code::kPermissionDenied, "only root and the user who started Heddle may stop it");
  }
  const auto body = parse_ordered_json(request.body);
  const bool end_jobs = body.is_object() && body.contains("endJobs") && body["endJobs"] == Json(true);
  const auto unfinished = daemon.shut_down(end_jobs ? ShutDown::kEndJobs : ShutDown::kIfIdle);
  if (!unfinished) return error_response(unfinished.error());
  if (!*unfinished) return json_response(200, "{}");
  Json out;
  out["running"] = (*unfinished)->running;
  out["waiting"] = (*unfinished)->waiting;
  return json_response(409, dump_json(out));
}

HttpResponse status(Daemon& daemon) {
  const auto view = daemon.view();
  if (!view) return error_response(view.error());
  return json_response(200, view_json(*view));
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool names_this_host(const HttpRequest& request) {
  const auto found = request.headers.find("host");
  if (found == request.headers.end()) return true;
  std::string host = found->second;
  if (const size_t colon = host.rfind(':'); colon != std::string::npos && host.back() != ']') host.resize(colon);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

}  // namespace

HttpResponse serve_api(Daemon& daemon, const HttpRequest& request) {
  const auto parts = split_path(request.path);
  const bool read = request.method == "GET";
  const bool change = request.method == "POST";
  if (read && request.path == "/v1/status") return status(daemon);
  if (change && request.path == "/v1/jobs") return submit(daemon, request);
  if (change && request.path == "/v1/shutdown") return shut_down(daemon, request);
  if ((read || change) && parts.size() >= 3 && parts.size() <= 4 && parts[0] == "v1" && parts[1] == "jobs") {
    const auto job = daemon.find(parts[2]);
    if (!job) return error_response(job.error());
    if (read && parts.size() == 3) return json_response(200, job_view_json(*job));
    if (change && parts.size() == 4) return act(daemon, request, *job, parts[3]);
  }
  return error_response(Code::kNotFound, fmt::format("{} {} is not part of this API", request.method, request.path));
}

HttpResponse serve_page(Daemon& daemon, const HttpRequest& request) {
  if (!names_this_host(request)) return error_response(Code::kPermissionDenied, "this page is for localhost only");
  if (request.method != "GET") return error_response(Code::kPermissionDenied, "this port only shows; use `heddle`");
  if (request.path == "/healthz") return {200, "text/plain", "ok\n", {}};
  if (request.path == "/v1/status") return status(daemon);
  if (request.path != "/") return error_response(Code::kNotFound, "there is only / and /v1/status");
  const auto view = daemon.view();
  if (!view) return error_response(view.error());
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.body = status_page(*view);
  response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'";
  response.headers["Cache-Control"] = "no-store";
  return response;
}

}  // namespace heddle::standalone
