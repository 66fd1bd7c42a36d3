// The webhook's certificate: made by the leader, kept in one Secret, served by every replica, trusted through the
// caBundle of the webhook configurations. The authority's key is thrown away: a new certificate comes with a new
// authority, and the bundle holds the old one beside it until the old certificate has ended everywhere.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"

namespace heddle::controller {

struct CertificatePair {
  std::string ca_pem;  // one or two authorities, the newest first
  std::string certificate_pem;
  std::string key_pem;
  Time not_after;
};

// The pair in a Secret's data; nothing when it is empty or cannot be used. Errors: kInvalidArgument when the text is no
// Secret.
Result<std::optional<CertificatePair>> read_secret(std::string_view secret_json);
// A merge patch that puts the pair into the Secret, valid only on the version that was read.
std::string secret_patch(const CertificatePair& pair, const std::string& resource_version);
// A patch of a webhook configuration that sets every caBundle; nothing when all are right already.
std::optional<std::string> bundle_patch(std::string_view configuration_json, const std::string& ca_pem);

// Two thirds of the lifetime are over, a name is missing, or the parts do not fit together.
[[nodiscard]] bool needs_renewal(const CertificatePair& pair, const std::vector<std::string>& names, Time now);

// A new authority (its key is gone with the call) and a certificate of it; the newest authority of old_bundle stays
// trusted. Errors: kInvalidArgument for names, kInternal.
Result<CertificatePair> make_pair(const std::vector<std::string>& names, Time now, const std::string& old_bundle);

struct CertificateOptions {
  std::string name_space;
  std::string secret;
  std::string configuration;
  std::vector<std::string> names;
};

// Keeps Secret and configurations right while this process leads, and tells of each pair that the Secret holds.
class CertificateKeeper {
 public:
  // on_pair: on the client's I/O thread. leads: asked before each write. Both from any thread.
  static std::unique_ptr<CertificateKeeper> start(CertificateOptions options, kube::Client& client, const Clock& clock,
                                                  const Logger& log, std::function<bool()> leads,
                                                  std::function<void(const CertificatePair&)> on_pair);
  virtual ~CertificateKeeper() = default;
  // Looks again now: this process has begun to lead, or time has passed. Cheap; blocks for nothing.
  virtual void check() = 0;
};

}  // namespace heddle::controller
