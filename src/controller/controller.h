// The controller as a running thing: watches, the owner thread around the Reconciler, the lease, webhook and metrics
// servers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "controller/reconciler.h"
#include "controller/sender.h"
#include "kube/client.h"

namespace heddle::controller {

enum class Election { kLease, kNone };

struct ControllerOptions {
  std::string name_space = "heddle-system";
  std::string identity;
  Election election = Election::kLease;
  std::string controller_user;  // empty: the service account heddle-controller of name_space
  std::string webhook_address = "0.0.0.0";
  uint16_t webhook_port = 9443;
  std::string metrics_address = "0.0.0.0";
  uint16_t metrics_port = 8080;
  std::string webhook_service = "heddle-webhook";
  std::string webhook_secret = "heddle-webhook";
  std::string webhook_configuration = "heddle";  // both kinds
  std::vector<std::string> webhook_names;        // further DNS names or addresses in the certificate
  Sender::Limits limits;
  DieAt die_at;
  std::string catalog_folder;    // an administrator's catalogue beside the built-in one; empty: none
  ReconcilerOptions reconciler;  // rules are read by start()
  std::shared_ptr<const catalog::Catalog> hardware = nullptr;  // read by start()
};

// Errors: kUnsupported with the reason when the API server is older than 1.36 or does not serve resource.k8s.io/v1.
Result<void> check_baseline(kube::Client& client);
// "v1.37.2" as the API server's /version says. Errors: kUnsupported, kInvalidArgument.
Result<void> check_version(std::string_view version_json);

class Controller {
 public:
  // client, clock and log are borrowed and must outlive the controller. Errors: of the baseline and of the servers'
  // ports.
  static Result<std::unique_ptr<Controller>> start(ControllerOptions options, kube::Client& client, const Clock& clock,
                                                   const Logger& log);
  // Ends writing first, then gives the lease back.
  virtual ~Controller() = default;
  [[nodiscard]] virtual uint16_t webhook_port() const = 0;
  [[nodiscard]] virtual uint16_t metrics_port() const = 0;
};

}  // namespace heddle::controller
