#include "agent/dra_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>

#include "agent/names.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "dra_v1.grpc.pb.h"
#include "dra_v1beta1.grpc.pb.h"
#include "health_v1.grpc.pb.h"
#include "health_v1alpha1.grpc.pb.h"
#include "registration_v1.grpc.pb.h"

namespace heddle::agent {
namespace {

namespace dra_v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace dra_v1beta1 = ::k8s::io::kubelet::pkg::apis::dra::v1beta1;

constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr auto kHealthPeriod = std::chrono::seconds(10);  // a third of what the kubelet waits before it says "unknown"

template <typename Request>
std::vector<ClaimName> names_of(const Request& request) {
  std::vector<ClaimName> names;
  for (const auto& claim : request.claims()) names.push_back({claim.namespace_(), claim.name(), claim.uid()});
  return names;
}

template <typename Device>
void fill_device(const PreparedDevice& from, Device& to) {
  to.add_request_names(from.request);
  to.set_pool_name(from.pool);
  to.set_device_name(from.device);
  for (const std::string& id : from.cdi_ids) to.add_cdi_device_ids(id);
  if constexpr (requires { to.set_share_id(from.share_id); }) {
    if (!from.share_id.empty()) to.set_share_id(from.share_id);
  }
}

// Both versions have the same messages in different packages.
template <typename Service, typename PrepareRequest, typename PrepareResponse, typename UnprepareRequest,
          typename UnprepareResponse>
class PluginService final : public Service {
 public:
  explicit PluginService(ClaimService& claims) : claims_(claims) {}

  grpc::Status NodePrepareResources(grpc::ServerContext*, const PrepareRequest* request,
                                    PrepareResponse* response) override {
    const std::vector<ClaimName> names = names_of(*request);
    const auto results = claims_.prepare(names);
    for (size_t i = 0; i < names.size(); ++i) {
      auto& answer = (*response->mutable_claims())[names[i].uid];
      if (!results[i]) {
        answer.set_error(valid_utf8(results[i].error().text()));
        continue;
      }
      for (const PreparedDevice& device : *results[i]) fill_device(device, *answer.add_devices());
    }
    return grpc::Status::OK;
  }

  grpc::Status NodeUnprepareResources(grpc::ServerContext*, const UnprepareRequest* request,
                                      UnprepareResponse* response) override {
    const std::vector<ClaimName> names = names_of(*request);
    const auto results = claims_.unprepare(names);
    for (size_t i = 0; i < names.size(); ++i) {
      auto& answer = (*response->mutable_claims())[names[i].uid];
      if (!results[i]) answer.set_error(valid_utf8(results[i].error().text()));
    }
    return grpc::Status::OK;
  }

 private:
  ClaimService& claims_;
};

template <typename Service, typename Request, typename Response, auto kHealthy, auto kUnhealthy>
class HealthService final : public Service {
 public:
  explicit HealthService(HealthBoard& board) : board_(board) {}

  grpc::Status NodeWatchResources(grpc::ServerContext* context, const Request*,
                                  grpc::ServerWriter<Response>* writer) override {
    uint64_t seen = 0;
    auto last = std::chrono::steady_clock::time_point{};
    while (!context->IsCancelled()) {
      // Wakes each second to notice a client that went away.
      const HealthBoard::View view = board_.wait(seen, std::chrono::seconds(1));
      if (view.closed) return {grpc::StatusCode::UNAVAILABLE, "the plugin is stopping"};
      const auto now = std::chrono::steady_clock::now();
      if (view.version == seen && now - last < kHealthPeriod) continue;
      if (!writer->Write(response_of(view))) break;
      seen = view.version;
      last = now;
    }
    return grpc::Status::OK;
  }

 private:
  static Response response_of(const HealthBoard::View& view) {
    Response response;
    for (const DeviceHealth& device : view.devices) {
      auto& entry = *response.add_devices();
      entry.mutable_device()->set_pool_name(device.pool);
      entry.mutable_device()->set_device_name(device.device);
      entry.set_health(device.healthy ? kHealthy : kUnhealthy);
      entry.set_last_updated_time(device.checked_unix_seconds);
      entry.set_message(cut_text(valid_utf8(device.message), 1024));
    }
    return response;
  }

  HealthBoard& board_;
};

class RegistrationService final : public pluginregistration::Registration::Service {
 public:
  RegistrationService(std::string endpoint, const Logger& log) : endpoint_(std::move(endpoint)), log_(log) {}

  grpc::Status GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                       pluginregistration::PluginInfo* info) override {
    info->set_type("DRAPlugin");
    info->set_name(std::string(kDriver));
    info->set_endpoint(endpoint_);
    for (const char* version :
         {"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"}) {
      info->add_supported_versions(version);
    }
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(grpc::ServerContext*, const pluginregistration::RegistrationStatus* status,
                                        pluginregistration::RegistrationStatusResponse*) override {
    if (status->plugin_registered()) {
      log_.info("registered with the kubelet", {{"endpoint", endpoint_}});
    } else {
      log_.error("the kubelet refused the registration", {{"why", status->error()}});
    }
    return grpc::Status::OK;
  }

 private:
  const std::string endpoint_;
  const Logger& log_;
};

using PluginV1 =
    PluginService<dra_v1::DRAPlugin::Service, dra_v1::NodePrepareResourcesRequest, dra_v1::NodePrepareResourcesResponse,
                  dra_v1::NodeUnprepareResourcesRequest, dra_v1::NodeUnprepareResourcesResponse>;
using PluginV1beta1 =
    PluginService<dra_v1beta1::DRAPlugin::Service, dra_v1beta1::NodePrepareResourcesRequest,
                  dra_v1beta1::NodePrepareResourcesResponse, dra_v1beta1::NodeUnprepareResourcesRequest,
                  dra_v1beta1::NodeUnprepareResourcesResponse>;
using HealthV1 = HealthService<::v1::DRAResourceHealth::Service, ::v1::NodeWatchResourcesRequest,
                               ::v1::NodeWatchResourcesResponse, ::v1::HEALTHY, ::v1::UNHEALTHY>;
using HealthV1alpha1 =
    HealthService<::v1alpha1::DRAResourceHealth::Service, ::v1alpha1::NodeWatchResourcesRequest,
                  ::v1alpha1::NodeWatchResourcesResponse, ::v1alpha1::HEALTHY, ::v1alpha1::UNHEALTHY>;

// Few threads: a kubelet sends a handful of calls at a time, and each thread costs memory on every node.
void keep_small(grpc::ServerBuilder& builder) {
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  grpc::ResourceQuota quota("heddle-agent");
  quota.SetMaxThreads(32);
  builder.SetResourceQuota(quota);
}

class GrpcDraServer final : public DraServer {
 public:
  GrpcDraServer(SocketPaths paths, ClaimService& claims, HealthBoard& health, const Logger& log)
      : paths_(std::move(paths)),
        health_(health),
        plugin_v1_(claims),
        plugin_v1beta1_(claims),
        health_v1_(health),
        health_v1alpha1_(health),
        registration_(paths_.plugin, log) {}

  ~GrpcDraServer() override {
    if (registration_server_) registration_server_->Shutdown(std::chrono::system_clock::now());
    (void)remove_file(paths_.registration);
    health_.close();
    if (plugin_server_) plugin_server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(10));
    (void)remove_file(paths_.plugin);
  }

  Result<void> listen() {
    grpc::ServerBuilder plugin;
    keep_small(plugin);
    plugin.AddListeningPort("unix:" + paths_.plugin, grpc::InsecureServerCredentials());
    plugin.RegisterService(&plugin_v1_);
    plugin.RegisterService(&plugin_v1beta1_);
    plugin.RegisterService(&health_v1_);
    plugin.RegisterService(&health_v1alpha1_);
    plugin_server_ = plugin.BuildAndStart();
    if (!plugin_server_) return fail(Code::kUnavailable, "cannot listen on " + paths_.plugin);
    grpc::ServerBuilder registration;
    keep_small(registration);
    registration.AddListeningPort("unix:" + paths_.registration, grpc::InsecureServerCredentials());
    registration.RegisterService(&registration_);
    registration_server_ = registration.BuildAndStart();
    if (!registration_server_) return fail(Code::kUnavailable, "cannot listen on " + paths_.registration);
    return {};
  }

  [[nodiscard]] const SocketPaths& paths() const override { return paths_; }

 private:
  const SocketPaths paths_;
  HealthBoard& health_;
  PluginV1 plugin_v1_;
  PluginV1beta1 plugin_v1beta1_;
  HealthV1 health_v1_;
  HealthV1alpha1 health_v1alpha1_;
  RegistrationService registration_;
  std::unique_ptr<grpc::Server> plugin_server_;
  std::unique_ptr<grpc::Server> registration_server_;
};

SocketPaths paths_for(const DraServerOptions& options, const std::string& instance) {
  return {fmt::format("{}/{}/dra-{}.sock", options.plugin_root, kDriver, instance),
          fmt::format("{}/{}-{}-reg.sock", options.registry_root, kDriver, instance)};
}

bool too_long(const SocketPaths& paths) {
  return paths.plugin.size() > kMaxSocketPath || paths.registration.size() > kMaxSocketPath;
}

bool somebody_listens(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!fd.valid() || path.size() > kMaxSocketPath) return true;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return true;
  return errno != ECONNREFUSED;
}

void remove_dead_in(const std::string& folder, std::string_view prefix, std::string_view suffix, const Logger& log) {
  const auto names = list_directory(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || somebody_listens(path)) continue;
    log.info("removing the socket of an agent that is gone", {{"path", path}});
    (void)remove_file(path);
  }
}

}  // namespace

Result<SocketPaths> socket_paths(const DraServerOptions& options) {
  SocketPaths paths = paths_for(options, options.instance);
  if (too_long(paths))
    paths = paths_for(options, fmt::format("{:08x}", std::hash<std::string>{}(options.instance) & 0xffffffffU));
  if (too_long(paths)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} is longer than a socket path may be ({} bytes); use shorter --plugin-root and "
                            "--registry-root",
                            paths.plugin.size() > kMaxSocketPath ? paths.plugin : paths.registration, kMaxSocketPath));
  }
  return paths;
}

void remove_dead_sockets(const DraServerOptions& options, const Logger& log) {
  remove_dead_in(options.registry_root, kDriver, "-reg.sock", log);
  remove_dead_in(fmt::format("{}/{}", options.plugin_root, kDriver), "dra", ".sock", log);
}

Result<std::unique_ptr<DraServer>> DraServer::start(const DraServerOptions& options, ClaimService& claims,
                                                    HealthBoard& health, const Logger& log) {
  HEDDLE_TRY(SocketPaths paths, socket_paths(options));
  HEDDLE_CHECK_OK(make_directories(fmt::format("{}/{}", options.plugin_root, kDriver), 0750));
  HEDDLE_CHECK_OK(make_directories(options.registry_root, 0750));
  remove_dead_sockets(options, log);
  auto server = std::make_unique<GrpcDraServer>(std::move(paths), claims, health, log);
  HEDDLE_CHECK_OK(server->listen());
  return std::unique_ptr<DraServer>(std::move(server));
}

}  // namespace heddle::agent
