// The kubelet plugin: registration, DRA and health services over unix sockets, all on gRPC.
#pragma once

#include <memory>
#include <string>

#include "agent/claim_service.h"
#include "agent/health.h"
#include "base/log.h"

namespace heddle::agent {

struct DraServerOptions {
  std::string plugin_root = "/var/lib/kubelet/plugins";
  std::string registry_root = "/var/lib/kubelet/plugins_registry";
  // Tells instances apart that run at the same time: the pod's uid, else the process id.
  std::string instance;
};

struct SocketPaths {
  std::string plugin;        // <plugin_root>/<driver>/dra-<instance>.sock
  std::string registration;  // <registry_root>/<driver>-<instance>-reg.sock
};

// Long paths get a hash in place of the instance. Errors: kInvalidArgument when even that is beyond 107 bytes.
Result<SocketPaths> socket_paths(const DraServerOptions& options);

// Removes sockets of this driver on which nobody listens any more.
void remove_dead_sockets(const DraServerOptions& options, const Logger& log);

class DraServer {
 public:
  // Listens. The plugin's socket is ready before the registration's appears.
  static Result<std::unique_ptr<DraServer>> start(const DraServerOptions& options, ClaimService& claims,
                                                  HealthBoard& health, const Logger& log);
  virtual ~DraServer() = default;  // stops: the kubelet sees the registration socket vanish first
  [[nodiscard]] virtual const SocketPaths& paths() const = 0;
};

}  // namespace heddle::agent
