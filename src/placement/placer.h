// The place of single requests on a fleet, decided by a policy.
//
// Deterministic: the same nodes, requests and seed in the same order give the same choices. Ties of cost go to the
// class of nodes that holds the node with the lowest number, then to that node, then to the card with the lowest index.
//
// Incremental: per request the cost of every class of nodes is remembered. An arrival scores only classes that came to
// be since this request was last asked for; then it takes the least of the remembered costs. Cost of choose():
// O(classes) plus the scoring. A new estimate of the mix voids what is remembered. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "placement/mix.h"
#include "placement/node_classes.h"
#include "placement/policy.h"
#include "placement/types.h"

namespace heddle::placement {

struct PlacerOptions {
  PolicyName policy = PolicyName::kHeddle;
  std::optional<Mix> known_mix;  // none: the mix is learnt from what arrives
  uint64_t seed = 0;             // for kRandom
};

class Placer {
 public:
  explicit Placer(PlacerOptions options);

  [[nodiscard]] NodeClasses& nodes() { return nodes_; }
  [[nodiscard]] const NodeClasses& nodes() const { return nodes_; }
  RequestId intern(const Request& request) { return requests_.intern(request); }
  [[nodiscard]] const Request& request(RequestId id) const { return requests_[id]; }

  // One pod with this request came: for the mix. Once a pod, however often it is tried.
  void arrive(RequestId id);
  // The best place now; none: it fits nowhere. Takes nothing.
  [[nodiscard]] std::optional<Choice> choose(RequestId id);

  // For a caller that has more to ask of a node than a policy sees: every place, the cheapest first, ties as above,
  // until `take` says true; false: it never did. variants: the same pod as nodes of different kinds see it; no kind is
  // allowed by two of them. Takes nothing; `take` changes nothing here. Not for kRandom. Errors: those of `take`.
  using Take = std::function<Result<bool>(const Choice&)>;
  // score: of the places whose cost is within Policy::alike() of the least, those with the least score come first; of
  // at most kMostAlike, the cheapest. Where all scores are equal the order is what it is without.
  using Score = std::function<int64_t(const Choice&)>;
  static constexpr size_t kMostAlike = 32;
  Result<bool> visit(std::span<const RequestId> variants, const Take& take, const Score& score = {});
  // The cheapest cards on one node; none: it does not fit there. Not for kRandom.
  [[nodiscard]] std::optional<Choice> choose_on(NodeId node, RequestId id);

  // A new estimate of the mix from outside, in place of what arrives here.
  void learn(const Mix& mix);
  // Looks at what the fleet has left; arrive() does it each 32nd time.
  void observe();
  // Requests have no numbers any more, so that many different ones do not pile up. For those who learn from outside.
  void forget_requests();
  [[nodiscard]] size_t known_requests() const { return requests_.size(); }
  // Errors: as NodeClasses.
  Result<void> take(RequestId id, const Choice& choice) { return nodes_.take(choice, requests_[id]); }
  Result<void> give_back(RequestId id, const Choice& choice) { return nodes_.give_back(choice, requests_[id]); }

 private:
  struct KindCosts {
    uint64_t seen = 0;          // NodeClasses::changes() of the last look
    std::vector<Cost> by_slot;  // kImpossible: it does not fit there, or there is no class
  };
  struct Remembered {
    uint64_t estimate = 0;
    std::vector<KindCosts> by_kind;
  };
  struct Found {
    int64_t cost = 0;
    Kind kind = 0;
    uint32_t slot = 0;
    NodeId node = 0;
  };

  struct Priced {
    int64_t cost = 0;
    Kind kind = 0;
    uint32_t slot = 0;
    RequestId request = 0;
  };

  void refresh(RequestId id);
  void refresh(RequestId id, Kind kind, KindCosts& costs);
  void price(RequestId id, std::vector<Priced>& out, int64_t above) const;
  [[nodiscard]] int64_t cheapest_above(RequestId id, int64_t above) const;
  Result<bool> visit_level(std::span<const Priced> level, const Take& take);
  Result<bool> visit_levels(std::span<const Priced> levels, const Take& take);
  Result<bool> visit_alike(std::span<const Priced> levels, const Take& take, const Score& score,
                           std::vector<NodeId>& tried);
  std::optional<Found> cheapest(RequestId id);
  std::optional<Found> any(RequestId id);
  [[nodiscard]] std::vector<uint16_t> pick_cards(RequestId id, const Found& found);

  PlacerOptions options_;
  std::unique_ptr<Policy> policy_;
  NodeClasses nodes_;
  RequestTable requests_;
  MixLearner learner_;
  SeededRandom random_;
  std::vector<Remembered> remembered_;  // by request
  uint64_t estimate_ = 0;               // counts learn(); 0: not yet
  int64_t arrivals_ = 0;
};

}  // namespace heddle::placement
