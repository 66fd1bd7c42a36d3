// Lends what the tenants of a card leave idle of its time to the others, and corrects what each is charged by the
// vendor's account (guard/broker.h has the law). A thread looks at the tenants' usage files a hundred times a second
// while a card has several tenants, and sleeps otherwise; another asks which claims there are and what the vendor
// accounted, as both may take long. Nothing is kept on disk: what was lent when the program ends is taken back by the
// guards 200 ms later.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "guard/share_broker.h"
#include "vendors/vendor.h"

namespace heddle::agent {

struct LentClaim {
  guard::BrokeredClaim files;
  std::vector<std::string> cards;   // uuids
  std::vector<std::string> owners;  // whose processes are those of this claim: pods, jobs

  friend bool operator==(const LentClaim&, const LentClaim&) = default;
};

// Who a process belongs to; nothing when that is not known.
using OwnerOf = std::function<std::optional<std::string>(int64_t pid)>;

// Device time by claim and card, from the vendor's account of processes. Pure. Where an owner has several claims on a
// card, whose of them its processes are is not known, and neither is their time.
class ClaimTimes {
 public:
  void add(const vendors::TimesReport& report, const std::vector<LentClaim>& claims, const OwnerOf& owner_of,
           int64_t now_ns);
  [[nodiscard]] guard::VendorAccount of(const std::string& claim, const std::string& card) const;

 private:
  std::map<std::pair<std::string, std::string>, guard::VendorAccount> accounts_;
};

// All are called by one thread of Lending's, and may block.
struct LendingPorts {
  std::function<std::vector<LentClaim>()> claims;
  std::function<Result<vendors::TimesReport>()> times;
  OwnerOf owner_of;
};

class Lending {
 public:
  Lending(LendingPorts ports, const Clock& clock);
  ~Lending();  // waits for a call to a port that is under way
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

 private:
  void book_loop();
  void tick_loop();
  bool pause(Duration at_most);

  const LendingPorts ports_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  bool changed_ = false;
  bool has_work_ = false;
  std::vector<guard::BrokeredClaim> claims_;
  ClaimTimes times_;
  std::thread book_;
  std::thread ticks_;
};

}  // namespace heddle::agent
