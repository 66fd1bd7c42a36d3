// What the tenants of one card may use of its time at a moment: shares that are idle are lent to those who want more,
// in proportion to their own, and intervals that tenants measured while they shared the card are corrected by the
// vendor's account of who really had it. Pure: no clock, no I/O, no randomness; same input, same output.
//
// The law: of the active tenants (they asked within kActive) those of the best priority share among themselves, in
// proportion to their own shares, what the idle ones leave; nobody has less than its own share, and what was granted to
// nobody is lent to nobody. Measured intervals count with the factor k that brings what a tenant's clock was charged
// with to what the vendor saw, one step every kAudit: k <- k * (vendor / charged)^(1/2), bounded. What a tenant says of
// its charges may lower k, but once the vendor has seen it use more than it was told k rises, and for some time, longer
// each time, it does not fall: nobody has more for a lie. Alone on the card k is 1. A tenant that gives way has all of
// the card while nobody of better priority is active, else what those with a share or without a limit leave, divided
// equally among the active ones that give way; less than kLeastLeft of the card is nothing, so that no debt is made
// that outlasts the others' work. A share that is lent comes back with the next tick, so after at most one tick and the
// borrowers' outstanding work.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle::guard {

struct TenantView {
  std::string id;    // of the claim, stable
  double share = 0;  // of the card's time, 0..1
  bool may_borrow = true;
  int64_t want_ns = 0;  // the tenant's own words, see Activity: believed for hints between tenants only
  int64_t charged_ns = 0;
  int64_t vendor_ns = -1;    // device time by the vendor's account, ever; -1: not known
  int64_t vendor_at_ns = 0;  // up to when that account goes: only a later one is news
  int priority = 0;          // 0 is the best: who is lent to first
  bool gives_way = false;    // no share of its own, and does not borrow: see the law
  bool unlimited = false;    // no share that could be lent: may use the whole card whenever it asks
};

struct TenantHint {
  double rate = 0;
  double charge = 1;
};

// Thread rule: one thread. Cost of a tick: linear in the tenants.
class CardBroker {
 public:
  static constexpr int64_t kActive = 50000000;
  static constexpr int64_t kAudit = 500000000;
  static constexpr double kLeastLeft = 0.05;

  static bool is_active(const TenantView& tenant, int64_t now_ns);

  // One hint for each tenant, in their order.
  std::vector<TenantHint> tick(int64_t now_ns, const std::vector<TenantView>& tenants);

 private:
  struct Audit {
    double factor = 1;
    int64_t charged_ns = 0;
    int64_t vendor_ns = -1;
    int64_t vendor_at_ns = 0;
    int64_t crowded_ns = 0;  // when it last shared the card with another active tenant
    double told = 0;         // the most since the last audit
    double told_mean = 0;    // over the last few audits, and what the vendor saw
    double used_mean = 0;
    int distrusted = 0;  // audits for which its word does not count
    int sentence = 0;
  };
  static void audit(Audit& one, const TenantView& tenant);
  static void leave_the_rest(int64_t now_ns, const std::vector<TenantView>& tenants, std::vector<TenantHint>& hints);

  std::map<std::string, Audit> audits_;
};

}  // namespace heddle::guard
