#include "guard/broker.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace heddle::guard {
namespace {

constexpr double kLeast = 0.01;
constexpr double kMost = 1.5;
constexpr double kLeastStep = 0.25;  // what one audit may find at the most: a burst of the vendor's rounding is no law
constexpr double kMostStep = 4;
constexpr double kBeyond = 0.04;  // of the card's time beyond what was told: more than bursts and the vendor's rounding
constexpr double kWeight = 0.3;
// Audits for which the word of one that used too much does not lower its factor; each time twice as many.
constexpr int kSentence = 20;
constexpr int kLongestSentence = 20000;
constexpr double kTooLittle = 0.005;  // of the time between two audits: nothing to be learned from

}  // namespace

// Words from the future say no more than that it asks now.
bool CardBroker::is_active(const TenantView& tenant, int64_t now_ns) {
  return tenant.want_ns > 0 && (tenant.want_ns >= now_ns || now_ns - tenant.want_ns <= kActive);
}

// The tenant's own account is compared with the vendor's over the same time: from one of the vendor's to the next.
void CardBroker::audit(Audit& one, const TenantView& tenant) {
  const bool known = one.vendor_ns >= 0 && tenant.vendor_ns >= 0;
  const int64_t window = tenant.vendor_at_ns - one.vendor_at_ns;
  if (known && window < kAudit) return;
  const auto charged = static_cast<double>(tenant.charged_ns) - static_cast<double>(one.charged_ns);
  const auto vendor = static_cast<double>(tenant.vendor_ns) - static_cast<double>(one.vendor_ns);
  if (known) {
    double step = 1;
    if (charged > kTooLittle * static_cast<double>(window)) step = vendor / charged;
    one.used_mean += kWeight * (vendor / static_cast<double>(window) - one.used_mean);
    one.told_mean += kWeight * (one.told - one.told_mean);
    if (one.used_mean > one.told_mean + kBeyond) {
      step = std::max(step, one.used_mean / std::max(one.told_mean, kTooLittle));
      if (one.distrusted == 0) one.sentence = std::min(2 * std::max(one.sentence, kSentence / 2), kLongestSentence);
      one.distrusted = one.sentence;
    } else if (one.distrusted > 0) {
      --one.distrusted;
      step = std::max(step, 1.0);
    }
    one.factor = std::clamp(one.factor * std::sqrt(std::clamp(step, kLeastStep, kMostStep)), kLeast, kMost);
    one.told = 0;
  } else {
    one.told_mean = std::max(one.told, tenant.share);
  }
  one.charged_ns = tenant.charged_ns;
  one.vendor_ns = tenant.vendor_ns;
  one.vendor_at_ns = tenant.vendor_at_ns;
}

// What tenants that give way may use.
void CardBroker::leave_the_rest(int64_t now_ns, const std::vector<TenantView>& tenants,
                                std::vector<TenantHint>& hints) {
  double left = 1;
  int best = INT_MAX;
  int giving = 0;
  for (size_t i = 0; i < tenants.size(); ++i) {
    if (!is_active(tenants[i], now_ns)) continue;
    if (tenants[i].gives_way) {
      ++giving;
      continue;
    }
    left -= tenants[i].unlimited ? 1 : hints[i].rate;
    best = std::min(best, tenants[i].priority);
  }
  // One that has not asked yet would be one more.
  for (size_t i = 0; i < tenants.size(); ++i) {
    if (!tenants[i].gives_way) continue;
    const int sharers = giving + (is_active(tenants[i], now_ns) ? 0 : 1);
    const double part = left / sharers;
    hints[i].rate = best >= tenants[i].priority ? 1 : (part >= kLeastLeft ? part : 0);
  }
}

std::vector<TenantHint> CardBroker::tick(int64_t now_ns, const std::vector<TenantView>& tenants) {
  double lendable = 0;  // what was granted, less what those who do not borrow use themselves
  double wanted = 0;    // shares of those who are lent to
  int best = INT_MAX;
  int active = 0;
  for (const TenantView& tenant : tenants) {
    lendable += tenant.share;
    if (!is_active(tenant, now_ns)) continue;
    ++active;
    if (tenant.may_borrow) best = std::min(best, tenant.priority);
  }
  const auto borrows = [&](const TenantView& tenant) {
    return is_active(tenant, now_ns) && tenant.may_borrow && tenant.priority == best;
  };
  for (const TenantView& tenant : tenants) {
    if (borrows(tenant)) {
      wanted += tenant.share;
    } else if (is_active(tenant, now_ns)) {
      lendable -= tenant.share;
    }
  }
  std::map<std::string, Audit> audits;
  std::vector<TenantHint> hints;
  for (const TenantView& tenant : tenants) {
    Audit audit = audits_[tenant.id];
    CardBroker::audit(audit, tenant);
    TenantHint hint{tenant.share, 1};
    if (borrows(tenant) && wanted > 0) {
      hint.rate = std::clamp(tenant.share / wanted * lendable, tenant.share, std::max(1.0, tenant.share));
    }
    if (is_active(tenant, now_ns) && active > 1) audit.crowded_ns = now_ns;
    // What was measured in company settles a little after the others have left.
    if (audit.crowded_ns != 0 && now_ns - audit.crowded_ns <= kActive) hint.charge = audit.factor;
    hints.push_back(hint);
    audits[tenant.id] = audit;
  }
  leave_the_rest(now_ns, tenants, hints);
  for (size_t i = 0; i < tenants.size(); ++i) {
    double& told = audits[tenants[i].id].told;
    told = std::max(told, hints[i].rate);
  }
  audits_ = std::move(audits);
  return hints;
}

}  // namespace heddle::guard
