#include "guard/broker.h"

#include <algorithm>
#include <cmath>

namespace heddle::guard {
namespace {

constexpr double kLeast = 0.01;
constexpr double kMost = 1.5;
constexpr double kLeastStep = 0.25;  // what one audit may find at the most: a burst of the vendor's rounding is no law
constexpr double kMostStep = 4;
constexpr double kTooLittle = 0.005;  // of the time between two audits: nothing to be learned from

bool is_active(const TenantView& tenant, int64_t now_ns) {
  return tenant.want_ns != 0 && now_ns - tenant.want_ns <= CardBroker::kActive;
}

}  // namespace

void CardBroker::audit(int64_t now_ns, const std::vector<TenantView>& tenants) {
  const auto window = static_cast<double>(now_ns - audited_ns_);
  std::map<std::string, Audit> next;
  for (const TenantView& tenant : tenants) {
    Audit one = audits_[tenant.id];
    const auto charged = static_cast<double>(tenant.charged_ns - one.charged_ns);
    const auto vendor = static_cast<double>(tenant.vendor_ns - one.vendor_ns);
    const bool told = one.seen && one.vendor_ns >= 0 && tenant.vendor_ns >= 0;
    if (told && charged > kTooLittle * window) {
      const double step = std::clamp(vendor / charged, kLeastStep, kMostStep);
      one.factor = std::clamp(one.factor * std::sqrt(step), kLeast, kMost);
    }
    one.charged_ns = tenant.charged_ns;
    one.vendor_ns = tenant.vendor_ns;
    one.seen = true;
    next[tenant.id] = one;
  }
  audits_ = std::move(next);
  audited_ns_ = now_ns;
}

std::vector<TenantHint> CardBroker::tick(int64_t now_ns, const std::vector<TenantView>& tenants) {
  if (audited_ns_ == 0 || now_ns - audited_ns_ >= kAudit) audit(now_ns, tenants);
  double wanted = 0;
  int active = 0;
  for (const TenantView& tenant : tenants) {
    if (!is_active(tenant, now_ns)) continue;
    wanted += tenant.share;
    ++active;
  }
  std::vector<TenantHint> hints;
  for (const TenantView& tenant : tenants) {
    Audit& audit = audits_[tenant.id];
    TenantHint hint{tenant.share, 1};
    if (is_active(tenant, now_ns)) {
      if (tenant.may_borrow && wanted > 0) hint.rate = std::clamp(tenant.share / wanted, tenant.share, 1.0);
      if (active > 1) audit.crowded_ns = now_ns;
    }
    // What was measured in company settles a little after the others have left.
    if (audit.crowded_ns != 0 && now_ns - audit.crowded_ns <= kActive) hint.charge = audit.factor;
    hints.push_back(hint);
  }
  return hints;
}

}  // namespace heddle::guard
