#include "queueing/remedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace heddle::queueing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Sites with free cards; what a victim gives back is its cost, at each of its sites an equal part.
class Cards final : public FitOracle {
 public:
  Cards(std::map<std::string, int64_t> free, int64_t needs, bool single)
      : free_(std::move(free)), needs_(needs), single_(single) {}
  [[nodiscard]] bool single_site() const override { return single_; }
  [[nodiscard]] bool fits(const std::string& site, const std::vector<const Victim*>& gone) override {
    ++calls;
    auto free = free_;
    for (const Victim* victim : gone) {
      if (!victim->site.empty()) free[victim->site] += victim->cost;
      for (const std::string& one : victim->sites)
        free[one] += victim->cost / static_cast<int64_t>(victim->sites.size());
    }
    int64_t together = 0;
    for (const auto& [name, cards] : free) together += cards;
    return (single_ ? free[site] : together) >= needs_;
  }
  [[nodiscard]] std::optional<std::string> room_now() override {
    for (const auto& [site, cards] : free_) {
      if (cards >= needs_) return site;
    }
    return std::nullopt;
  }
  size_t calls = 0;

 private:
  std::map<std::string, int64_t> free_;
  int64_t needs_;
  bool single_;
};

class RemedyTest : public testing::Test {
 protected:
  void run(const std::string& id, int64_t cards, const std::string& site) {
    Victim victim;
    victim.id = id;
    victim.cost = cards;
    victim.site = site;
    running_.push_back(std::move(victim));
  }
  std::vector<std::string> found(FitOracle& oracle, size_t steps = 256) {
    RemedySearch search{.running = {}, .allowed = allowed_, .steps = steps};
    for (const Victim& victim : running_) search.running.push_back(&victim);
    std::vector<std::string> ids;
    for (const Victim* victim : who_has_to_end(oracle, search)) ids.push_back(victim->id);
    return ids;
  }
  // Quota that lets it start when work of so many cards has ended.
  void allow_after(int64_t cards) {
    allowed_ = [cards](const std::vector<const Victim*>& gone) {
      int64_t sum = 0;
      for (const Victim* victim : gone) sum += victim->cost;
      return sum >= cards;
    };
  }

  std::vector<Victim> running_;
  std::function<bool(const std::vector<const Victim*>&)> allowed_ = [](const auto&) { return true; };
};

TEST_F(RemedyTest, TheFirstThatIsEnoughAlone) {
  run("small", 1, "n1");
  run("late", 4, "n2");
  run("later", 4, "n3");
  Cards oracle({{"n1", 1}, {"n2", 0}, {"n3", 0}}, 4, true);
  EXPECT_THAT(found(oracle), ElementsAre("late"));
}

TEST_F(RemedyTest, NothingHasToEndForWhatFits) {
  run("any", 4, "n1");
  Cards oracle({{"n1", 0}, {"n2", 4}}, 4, true);
  EXPECT_THAT(found(oracle), IsEmpty());
}

TEST_F(RemedyTest, TheFewestTogetherWhereNoneIsEnoughAlone) {
  for (const char* id : {"a", "b", "c"}) run(id, 1, "n1");
  run("d", 2, "n2");
  run("e", 2, "n2");
  run("f", 1, "n2");
  Cards oracle({{"n1", 1}, {"n2", 0}}, 4, true);
  EXPECT_THAT(found(oracle), ElementsAre("d", "e")) << "f can be left out, and n1 needs three";
}

TEST_F(RemedyTest, OnlyQuotaIsShort) {
  run("small", 1, "n1");
  run("large", 3, "n1");
  Cards oracle({{"n1", 0}, {"n2", 4}}, 4, true);
  allow_after(2);
  EXPECT_THAT(found(oracle), ElementsAre("large"));
  allow_after(4);
  EXPECT_THAT(found(oracle), ElementsAre("small", "large"));
  allow_after(5);
  EXPECT_THAT(found(oracle), IsEmpty());
}

TEST_F(RemedyTest, QuotaAndRoomBothAreShort) {
  run("elsewhere", 3, "n1");
  run("here", 2, "n2");
  Cards oracle({{"n1", 0}, {"n2", 2}}, 4, true);
  EXPECT_THAT(found(oracle), ElementsAre("here"));
  allow_after(4);
  running_.clear();
  run("elsewhere", 3, "n1");
  run("here", 2, "n2");
  run("near", 1, "n2");
  EXPECT_THAT(found(oracle), ElementsAre("here", "elsewhere"));
}

TEST_F(RemedyTest, AGangTakesRoomAnywhere) {
  for (int i = 0; i < 6; ++i) run("p" + std::to_string(i), 1, "n" + std::to_string(i));
  Cards oracle({}, 3, false);
  EXPECT_THAT(found(oracle), ElementsAre("p0", "p1", "p2"));
  Victim gang;
  gang.id = "gang";
  gang.cost = 4;
  gang.sites = {"n6", "n7"};
  running_.push_back(gang);
  EXPECT_THAT(found(oracle), ElementsAre("gang")) << "one is enough, though it ends last";
}

TEST_F(RemedyTest, AGangOnManyNodesMakesRoomOnOne) {
  Victim gang;
  gang.id = "gang";
  gang.cost = 8;
  gang.sites = {"n1", "n2"};
  running_.push_back(gang);
  Cards oracle({{"n1", 0}, {"n2", 0}}, 4, true);
  EXPECT_THAT(found(oracle), ElementsAre("gang"));
}

TEST_F(RemedyTest, TheStepsAreCountedAndNothingIsSaidWhenTheyAreNotEnough) {
  for (int i = 0; i < 500; ++i) run("p" + std::to_string(i), 1, "n" + std::to_string(i / 5));
  Cards gang({}, 300, false);
  EXPECT_THAT(found(gang, 64), IsEmpty()) << "found, and not proven to be the fewest";
  EXPECT_LE(gang.calls, 66U);
  Cards alone({}, 5, true);
  EXPECT_THAT(found(alone, 128), ElementsAre("p0", "p1", "p2", "p3", "p4"));
  EXPECT_LE(alone.calls, 129U);
  EXPECT_THAT(found(alone, 2), IsEmpty());
}

}  // namespace
}  // namespace heddle::queueing
