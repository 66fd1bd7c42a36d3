#include "agent/lending.h"

#include <algorithm>
#include <chrono>

namespace heddle::agent {
namespace {

constexpr Duration kBook = Duration::millis(500);
// A share comes back within one tick and the borrowers' outstanding work.
constexpr Duration kTick = Duration::millis(10);
constexpr Duration kRestingTick = Duration::millis(50);  // nobody asks: nothing is lent for so long at the most

bool has(const std::vector<std::string>& list, const std::string& what) {
  return std::ranges::find(list, what) != list.end();
}

}  // namespace

void ClaimTimes::add(const vendors::TimesReport& report, const std::vector<LentClaim>& claims, const OwnerOf& owner_of,
                     int64_t now_ns) {
  std::map<std::pair<std::string, std::string>, guard::VendorAccount> next;
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> busiest;  // time and pid
  for (const vendors::CardTimes& card : report) {
    std::map<std::string, std::vector<const LentClaim*>> by_owner;
    for (const LentClaim& claim : claims) {
      if (!has(claim.cards, card.uuid)) continue;
      for (const std::string& owner : claim.owners) by_owner[owner].push_back(&claim);
      const guard::VendorAccount before = of(claim.files.id, card.uuid);
      next[{claim.files.id, card.uuid}] = {std::max<int64_t>(before.busy_ns, 0), now_ns};
    }
    for (const vendors::ProcessTime& process : card.processes) {
      const std::optional<std::string> owner = owner_of(process.pid);
      const auto found = owner ? by_owner.find(*owner) : by_owner.end();
      if (found == by_owner.end()) continue;
      const std::pair place(found->second.front()->files.id, card.uuid);
      next[place].busy_ns += process.busy_ns;
      busiest[place] = std::max(busiest[place], std::pair(process.busy_ns, process.pid));
    }
    for (const auto& [owner, shared] : by_owner) {
      if (shared.size() == 1) continue;
      for (const LentClaim* claim : shared) next.erase({claim->files.id, card.uuid});
    }
  }
  accounts_ = std::move(next);
  busiest_.clear();
  for (const auto& [place, most] : busiest) busiest_[place] = most.second;
}

int64_t ClaimTimes::busiest(const std::string& claim, const std::string& card) const {
  const auto found = busiest_.find({claim, card});
  return found == busiest_.end() ? 0 : found->second;
}

guard::VendorAccount ClaimTimes::of(const std::string& claim, const std::string& card) const {
  const auto found = accounts_.find({claim, card});
  return found == accounts_.end() ? guard::VendorAccount() : found->second;
}

Lending::Lending(LendingPorts ports, const Clock& clock, LendingMode mode)
    : ports_(std::move(ports)), clock_(clock), book_([this] { book_loop(); }) {
  if (mode == LendingMode::kLend) ticks_ = std::thread([this] { tick_loop(); });
}

Lending::~Lending() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  book_.join();
  if (ticks_.joinable()) ticks_.join();
}

// False: it is time to end.
bool Lending::pause(Duration at_most) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, std::chrono::nanoseconds(at_most.nanos), [this] { return stopped_; });
}

// Of the thread that keeps the book.
void Lending::judge(const std::vector<LentClaim>& claims, const ClaimTimes& times) {
  guard::ShareBroker::Told told;
  {
    const std::lock_guard lock(mutex_);
    told = std::exchange(told_, {});
  }
  std::vector<ComputeUse> uses;
  for (const LentClaim& claim : claims) {
    for (const auto& [card, share] : claim.shares) {
      const auto word = told.find({claim.files.id, card});
      const bool is_told = word != told.end();
      double allowed = share.gives_way ? 1 : share.share;
      if (is_told) allowed = share.gives_way ? word->second : std::max(share.share, word->second);
      const guard::VendorAccount account = times.of(claim.files.id, card);
      uses.push_back({claim.files.id, card, allowed, account.busy_ns, account.at_ns});
    }
  }
  std::vector<Overuse> found = audit_.look(uses);
  for (Overuse& one : found) one.pid = times.busiest(one.claim, one.card_uuid);
  ports_.overuse(found);
}

void Lending::book_loop() {
  do {
    const std::vector<LentClaim> claims = ports_.claims();
    bool has_work = false;
    {
      const std::lock_guard lock(mutex_);
      claims_.clear();
      for (const LentClaim& claim : claims) claims_.push_back(claim.files);
      changed_ = true;
      has_work = has_work_;
    }
    const bool limited =
        ports_.overuse && std::ranges::any_of(claims, [](const LentClaim& claim) { return !claim.shares.empty(); });
    wake_.notify_all();
    ClaimTimes times = times_;  // written by this thread alone
    const Result<vendors::TimesReport> report = has_work || limited ? ports_.times() : vendors::TimesReport();
    times.add(report.value_or(vendors::TimesReport()), claims, ports_.owner_of, clock_.monotonic_nanos());
    if (ports_.overuse) judge(claims, times);
    const std::lock_guard lock(mutex_);
    times_ = std::move(times);
  } while (pause(kBook));
}

void Lending::tick_loop() {
  guard::ShareBroker broker;
  for (;;) {
    std::vector<guard::BrokeredClaim> claims;
    bool changed = false;
    {
      std::unique_lock lock(mutex_);
      if (!broker.has_work()) wake_.wait(lock, [this] { return changed_ || stopped_; });
      if (stopped_) return;
      changed = std::exchange(changed_, false);
      claims = claims_;
    }
    if (changed) broker.set_claims(claims);
    const guard::ShareBroker::Outcome outcome =
        broker.tick(clock_.monotonic_nanos(), [this](const std::string& claim, const std::string& card) {
          const std::lock_guard lock(mutex_);
          return times_.of(claim, card);
        });
    {
      const std::lock_guard lock(mutex_);
      has_work_ = broker.has_work();
      for (const auto& [place, rate] : broker.take_told()) told_[place] = std::max(told_[place], rate);
    }
    if (broker.has_work() && !pause(outcome.active ? kTick : kRestingTick)) return;
  }
}

}  // namespace heddle::agent
