// The JSON API of the standalone daemon, and its status page. Handlers for kube::HttpServer; any thread.
//
//   GET  /v1/status                 cards, live jobs, the last that ended
//   GET  /v1/jobs/ID-OR-NAME        one job: state, place in the queue, reasons
//   POST /v1/jobs                   {"request": {...}, "client": {"pid": N}} -> 201 the job; 422 it fits on no card (or
//   not now) POST /v1/jobs/ID/launch         -> environment and folder for the command, once granted POST
//   /v1/jobs/ID/start          {"runner": {"pid": N}}, before the command starts POST /v1/jobs/ID/cancel POST
//   /v1/shutdown               {"endJobs": true|false} -> 409 with what is unfinished GET  / the status page
// Errors are {"error": {"code": "NotFound", "message": "...", "field": "..."}}.
#pragma once

#include <string>

#include "base/result.h"
#include "kube/http_server.h"
#include "standalone/daemon.h"

namespace heddle::standalone {

// Everything, for the unix socket. A caller may change only its own jobs; root and the daemon's user may change all.
kube::HttpResponse serve_api(Daemon& daemon, const kube::HttpRequest& request);

// GET /, /v1/status and /healthz only, for localhost. Requests that name another host are refused (DNS rebinding).
kube::HttpResponse serve_page(Daemon& daemon, const kube::HttpRequest& request);

std::string view_json(const View& view);
std::string job_view_json(const JobView& job);

}  // namespace heddle::standalone
