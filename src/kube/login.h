// Keeps the credential of a plugin fresh while a client lives.
//
// Thread rule: one thread (the client's I/O thread); the plugin runs on a thread of its own, so nothing here waits for
// it but the destructor, which ends it.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "kube/credential_plugin.h"

namespace heddle::kube {

class Login {
 public:
  // config.plugin is set; `first` is what it printed at the start.
  static std::unique_ptr<Login> create(Config config, const Credential& first);
  virtual ~Login() = default;

  // A credential that has come since the last call. Starts the plugin when the present one expires within 30 s or was
  // refused, at most once in 10 s; then one of the next calls has what it printed. Cheap when there is nothing to do.
  virtual std::optional<Credential> renewed(Time now) = 0;
  // The API server did not take the credential (401).
  virtual void refused() = 0;
};

}  // namespace heddle::kube
