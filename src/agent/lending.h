// Lends what the tenants of a card leave idle of its time to the others, and corrects what each is charged by the
// vendor's account (guard/broker.h has the law), and finds who uses more than it was given (compute_audit.h). A thread
// looks at the tenants' usage files a hundred times a second while a card has several tenants, and sleeps otherwise;
// another asks which claims there are and what the vendor accounted, as both may take long. Nothing is kept on disk:
// what was lent when the program ends is taken back by the guards 200 ms later.
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

#include "agent/compute_audit.h"
#include "base/clock.h"
#include "base/result.h"
#include "guard/share_broker.h"
#include "vendors/vendor.h"

namespace heddle::agent {

// A limited claim's part of a card's time.
struct LentShare {
  double share = 1;
  bool gives_way = false;  // no part of its own: what it is told

  friend bool operator==(const LentShare&, const LentShare&) = default;
};

struct LentClaim {
  guard::BrokeredClaim files;
  std::vector<std::string> cards;                // uuids
  std::vector<std::string> owners;               // whose processes are those of this claim: pods, jobs
  std::map<std::string, LentShare> shares = {};  // by card; without a limit: none

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
  // The claim's process that had most of the card in the last report; 0: none had any.
  [[nodiscard]] int64_t busiest(const std::string& claim, const std::string& card) const;

 private:
  std::map<std::pair<std::string, std::string>, int64_t> busiest_;
  std::map<std::pair<std::string, std::string>, guard::VendorAccount> accounts_;
};

// All are called by one thread of Lending's, and may block.
struct LendingPorts {
  std::function<std::vector<LentClaim>()> claims;
  std::function<Result<vendors::TimesReport>()> times;
  OwnerOf owner_of;
  // Who is beyond its share now; after each look at the vendor's account. May be empty: then nobody looks.
  std::function<void(const std::vector<Overuse>& found)> overuse = {};
};

enum class LendingMode {
  kLend,
  kWatch,  // nothing is lent or told; who is beyond its share is found all the same
};

class Lending {
 public:
  Lending(LendingPorts ports, const Clock& clock, LendingMode mode = LendingMode::kLend);
  ~Lending();  // waits for a call to a port that is under way
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

 private:
  void book_loop();
  void tick_loop();
  bool pause(Duration at_most);
  void judge(const std::vector<LentClaim>& claims, const ClaimTimes& times);

  const LendingPorts ports_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  bool changed_ = false;
  bool has_work_ = false;
  std::vector<guard::BrokeredClaim> claims_;
  ClaimTimes times_;
  guard::ShareBroker::Told told_;  // since the last look
  ComputeAudit audit_;             // of book_
  std::thread book_;
  std::thread ticks_;
};

}  // namespace heddle::agent
