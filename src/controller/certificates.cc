#include "controller/certificates.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.h"
#include "base/json.h"
#include "base/json_read.h"
#include "kube/certificates.h"
#include "kube/paths.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr Duration kLifetime = Duration::seconds(int64_t{365} * 86400);
constexpr std::string_view kEnd = "-----END CERTIFICATE-----\n";

// The newest authority of a bundle.
std::string first_certificate(const std::string& bundle) {
  const size_t end = bundle.find(kEnd);
  return end == std::string::npos ? std::string() : bundle.substr(0, end + kEnd.size());
}

}  // namespace

Result<std::optional<CertificatePair>> read_secret(std::string_view secret_json) {
  const Json secret = parse_json(secret_json);
  if (!secret.is_object()) return fail(Code::kInvalidArgument, "not a Secret");
  const Json data = secret.value("data", Json::object());
  const auto field = [&](const char* name) { return base64_decode(json_text(data, name)).value_or(""); };
  CertificatePair pair{field("ca.crt"), field("tls.crt"), field("tls.key"), {}};
  if (pair.ca_pem.empty() || pair.key_pem.empty()) return std::optional<CertificatePair>();
  const auto facts = kube::parse_certificate(pair.certificate_pem);
  if (!facts) return std::optional<CertificatePair>();
  pair.not_after = facts->not_after;
  return std::optional<CertificatePair>(std::move(pair));
}

std::string secret_patch(const CertificatePair& pair, const std::string& resource_version) {
  Json patch{{"data",
              {{"ca.crt", base64_encode(pair.ca_pem)},
               {"tls.crt", base64_encode(pair.certificate_pem)},
               {"tls.key", base64_encode(pair.key_pem)}}}};
  if (!resource_version.empty()) patch["metadata"]["resourceVersion"] = resource_version;
  return dump_json(patch);
}

std::optional<std::string> bundle_patch(std::string_view configuration_json, const std::string& ca_pem) {
  const Json configuration = parse_json(configuration_json);
  if (!configuration.is_object() || !configuration.contains("webhooks") || !configuration["webhooks"].is_array())
    return std::nullopt;
  const std::string bundle = base64_encode(ca_pem);
  Json patch = Json::array();
  const Json& webhooks = configuration["webhooks"];
  for (size_t i = 0; i < webhooks.size(); ++i) {
    if (json_text(webhooks[i].value("clientConfig", Json::object()), "caBundle") == bundle) continue;
    patch.push_back(
        {{"op", "add"}, {"path", "/webhooks/" + std::to_string(i) + "/clientConfig/caBundle"}, {"value", bundle}});
  }
  if (patch.empty()) return std::nullopt;
  const std::string version = json_text(configuration.value("metadata", Json::object()), "resourceVersion");
  // Named: a braced list would be taken for several elements.
  const Json test{{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", version}};
  patch.insert(patch.begin(), test);
  return dump_json(patch);
}

bool needs_renewal(const CertificatePair& pair, const std::vector<std::string>& names, Time now) {
  return !kube::needs_rotation({pair.certificate_pem, pair.key_pem}, first_certificate(pair.ca_pem), names, now)
              .empty();
}

Result<CertificatePair> make_pair(const std::vector<std::string>& names, Time now, const std::string& old_bundle) {
  const Time start{now.unix_nanos - Duration::seconds(3600).nanos};  // for clocks that are behind ours
  const Time end = now + kLifetime;
  // Two authorities stand in one bundle while certificates rotate: each has a name of its own.
  const std::string name = "heddle-webhook-" + std::to_string(now.unix_nanos / 1'000'000'000);
  HEDDLE_TRY(const kube::KeyPair ca, kube::make_ca(name, start, end));
  HEDDLE_TRY(kube::KeyPair server, kube::make_server_certificate(ca, names, start, end));
  return CertificatePair{ca.certificate_pem + first_certificate(old_bundle), std::move(server.certificate_pem),
                         std::move(server.key_pem), end};
}

namespace {

// One pass at a time: read the Secret, make a pair if needed, trust it in both configurations, and only then publish it
// in the Secret, so that no replica serves what the API server does not trust yet.
class Pass : public std::enable_shared_from_this<Pass> {
 public:
  using Done = std::function<void()>;
  Pass(const CertificateOptions& options, kube::Client& client, const Clock& clock, const Logger& log,
       const std::function<bool()>& leads)
      : options_(options), client_(client), clock_(clock), log_(log), leads_(leads) {}

  void start(Done done) {
    done_ = std::move(done);
    kube::Request request;
    request.path = secret_path();
    send(std::move(request), [self = shared_from_this()](const Result<kube::Response>& r) { self->got_secret(r); });
  }

 private:
  using Next = std::function<void(const Result<kube::Response>&)>;
  [[nodiscard]] std::string secret_path() const {
    return kube::object_path(kube::kSecrets, options_.name_space, options_.secret);
  }

  void send(kube::Request request, Next next) {
    if (!leads_()) return done_();
    client_.send(std::move(request),
                 [next = std::move(next)](const Result<kube::Response>& response) { next(response); });
  }

  void stop(const char* what, const Error& error) {
    log_.warning(what, {{"error", error.text()}});
    done_();
  }

  void got_secret(const Result<kube::Response>& response) {
    std::optional<CertificatePair> pair;
    missing_ = !response && response.error().code == Code::kNotFound;
    if (!response && !missing_) return stop("the webhook's secret cannot be read", response.error());
    if (response) {
      auto read = read_secret(response->body);
      if (!read) return stop("the webhook's secret cannot be understood", read.error());
      pair = std::move(*read);
      const Json secret = parse_json(response->body);
      version_ = json_text(secret.value("metadata", Json::object()), "resourceVersion");
    }
    if (pair && !needs_renewal(*pair, options_.names, clock_.now())) {
      pair_ = std::move(*pair);
      return trust(kube::kMutatingWebhooks);
    }
    auto made = make_pair(options_.names, clock_.now(), pair ? pair->ca_pem : std::string());
    if (!made) return stop("no certificate can be made", made.error());
    pair_ = std::move(*made);
    fresh_ = true;
    trust(kube::kMutatingWebhooks);
  }

  void trust(kube::ResourceType type) {
    kube::Request request;
    request.path = kube::object_path(type, {}, options_.configuration);
    send(request, [self = shared_from_this(), type, path = request.path](const Result<kube::Response>& response) {
      if (!response && response.error().code != Code::kNotFound)
        return self->stop("webhook configuration", response.error());
      const auto patch = response ? bundle_patch(response->body, self->pair_.ca_pem) : std::nullopt;
      if (!patch) return self->trusted(type);
      kube::Request change;
      change.method = kube::Method::kPatch;
      change.path = path;
      change.content_type = kube::kJsonPatch;
      change.body = *patch;
      self->send(std::move(change), [self, type](const Result<kube::Response>& changed) {
        if (!changed) return self->stop("webhook configuration", changed.error());
        self->log_.info("webhook configuration trusts the certificate", {{"resource", type.plural}});
        self->trusted(type);
      });
    });
  }

  void trusted(kube::ResourceType type) {
    if (type.plural == kube::kMutatingWebhooks.plural) return trust(kube::kValidatingWebhooks);
    if (!fresh_) return done_();
    kube::Request request;
    request.method = missing_ ? kube::Method::kPost : kube::Method::kPatch;
    request.path = missing_ ? kube::collection_path(kube::kSecrets, options_.name_space) : secret_path();
    request.body = secret_patch(pair_, version_);
    request.content_type = kube::kMergePatch;
    if (missing_) {
      Json secret = parse_json(request.body);
      secret["apiVersion"] = "v1";
      secret["kind"] = "Secret";
      secret["metadata"]["name"] = options_.secret;
      request.body = dump_json(secret);
      request.content_type = "application/json";
    }
    send(std::move(request), [self = shared_from_this()](const Result<kube::Response>& response) {
      if (!response) return self->stop("the webhook's secret cannot be written", response.error());
      self->log_.info("new webhook certificate", {{"until", format_rfc3339(self->pair_.not_after)}});
      self->done_();
    });
  }

  const CertificateOptions& options_;
  kube::Client& client_;
  const Clock& clock_;
  const Logger& log_;
  const std::function<bool()>& leads_;
  Done done_;
  CertificatePair pair_;
  std::string version_;
  bool missing_ = false;
  bool fresh_ = false;
};

class Sink final : public kube::WatchSink {
 public:
  explicit Sink(std::function<void(std::string_view)> changed) : changed_(std::move(changed)) {}
  void replace(const std::vector<std::string_view>& items) override {
    for (const std::string_view item : items) changed_(item);
  }
  void added_or_modified(std::string_view object) override { changed_(object); }
  void deleted(std::string_view /*object*/) override { changed_({}); }
  void status(std::string_view /*trouble*/) override {}

 private:
  std::function<void(std::string_view)> changed_;
};

// Shared with the callbacks of requests that may still be under way when the keeper ends.
struct Shared : std::enable_shared_from_this<Shared> {
  Shared(CertificateOptions the_options, kube::Client& the_client, const Clock& the_clock, const Logger& the_log,
         std::function<bool()> the_leads)
      : options(std::move(the_options)),
        client(the_client),
        clock(the_clock),
        log(the_log),
        leads(std::move(the_leads)) {}

  void check() {
    if (gone.load()) return;
    if (busy.exchange(true)) {
      again.store(true);
      return;
    }
    again.store(false);
    auto pass = std::make_shared<Pass>(options, client, clock, log, may);
    pass->start([self = shared_from_this()] {
      self->busy.store(false);
      if (self->again.load() && self->may()) self->check();
    });
  }

  CertificateOptions options;
  kube::Client& client;
  const Clock& clock;
  const Logger& log;
  std::function<bool()> leads;
  std::function<bool()> may = [this] { return !gone.load() && leads(); };
  std::atomic<bool> gone{false};
  std::atomic<bool> busy{false};
  std::atomic<bool> again{false};
};

class Keeper final : public CertificateKeeper {
 public:
  Keeper(CertificateOptions options, kube::Client& client, const Clock& clock, const Logger& log,
         std::function<bool()> leads, std::function<void(const CertificatePair&)> on_pair)
      : shared_(std::make_shared<Shared>(std::move(options), client, clock, log, std::move(leads))),
        on_pair_(std::move(on_pair)),
        secret_sink_([this](std::string_view object) { secret_changed(object); }),
        configuration_sink_([this](std::string_view /*object*/) { shared_->check(); }) {
    const std::string name_space = shared_->options.name_space;
    kube::WatchOptions secret;
    secret.path = kube::collection_path(kube::kSecrets, name_space);
    secret.field_selector = "metadata.name=" + shared_->options.secret;
    watches_.push_back(client.watch(std::move(secret), secret_sink_));
    for (const kube::ResourceType type : {kube::kMutatingWebhooks, kube::kValidatingWebhooks}) {
      kube::WatchOptions watch;
      watch.path = kube::collection_path(type);
      watch.field_selector = "metadata.name=" + shared_->options.configuration;
      watches_.push_back(client.watch(std::move(watch), configuration_sink_));
    }
  }

  ~Keeper() override {
    watches_.clear();
    shared_->gone.store(true);
  }

  void check() override { shared_->check(); }

 private:
  void secret_changed(std::string_view object) {
    shared_->check();
    if (object.empty()) return;
    const auto pair = read_secret(object);
    if (pair && *pair) on_pair_(**pair);
  }

  std::shared_ptr<Shared> shared_;
  std::function<void(const CertificatePair&)> on_pair_;
  Sink secret_sink_;
  Sink configuration_sink_;
  std::vector<std::unique_ptr<kube::Watch>> watches_;
};

}  // namespace

std::unique_ptr<CertificateKeeper> CertificateKeeper::start(CertificateOptions options, kube::Client& client,
                                                            const Clock& clock, const Logger& log,
                                                            std::function<bool()> leads,
                                                            std::function<void(const CertificatePair&)> on_pair) {
  return std::make_unique<Keeper>(std::move(options), client, clock, log, std::move(leads), std::move(on_pair));
}

}  // namespace heddle::controller
