#include "vendors/source.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "vendors/partition.h"
#include "vendors/sources.h"
#include "vendors/wire.h"

namespace heddle::vendors {
namespace {

Card card(const std::string& uuid, int64_t minor_number) {
  Card result;
  result.vendor = "nvidia";
  result.uuid = uuid;
  result.minor = minor_number;
  result.memory_bytes = 1 << 30;
  return result;
}

// A vendor whose answers the test sets.
struct FakeVendor {
  Inventory inventory{LibraryState::kOk, "", "/lib", {card("a", 0), card("b", 1)}};
  StatusReport report{LibraryState::kOk, "", {}, {}};
  bool broken = false;
  int card_calls = 0;

  FakeVendor() { answer_for_all(); }
  void answer_for_all() {
    report.cards.clear();
    for (const Card& c : inventory.cards) report.cards.push_back({c.uuid, true, "", 0, -1, -1, -1, {}});
  }
  Ask ask() {
    return [this](std::string_view what, Duration) -> Result<std::string> {
      if (broken) return fail(Code::kDeadlineExceeded, "hung");
      if (what == kAskCards) ++card_calls;
      return what == kAskCards ? inventory_json(inventory) : status_json(report);
    };
  }
};

TEST(CardSource, KeepsTheLastKnownCardsAndMarksThemUnhealthyOnlyAfterSeveralFailures) {
  FakeVendor vendor;
  ManualClock clock(Time{0});
  CardSource source({.failures_until_unhealthy = 3}, vendor.ask(), clock);
  source.refresh();
  vendor.broken = true;
  for (int i = 0; i < 2; ++i) {
    source.refresh();
    ASSERT_EQ(source.snapshot().inventory.cards.size(), 2U);
    EXPECT_TRUE(source.snapshot().inventory.cards[0].healthy) << i;
    EXPECT_FALSE(source.snapshot().current);
    EXPECT_TRUE(source.snapshot().statuses.empty()) << "old process lists must not be judged again";
  }
  source.refresh();
  EXPECT_FALSE(source.snapshot().inventory.cards[0].healthy);
  EXPECT_EQ(source.snapshot().inventory.cards[0].health_message, "hung");
  vendor.broken = false;
  source.refresh();
  EXPECT_TRUE(source.snapshot().inventory.cards[0].healthy);
}

TEST(CardSource, AVanishedCardStaysUntilNothingHoldsIt) {
  FakeVendor vendor;
  ManualClock clock(Time{0});
  CardSource source({.discover_interval = Duration::seconds(60)}, vendor.ask(), clock);
  source.refresh();
  vendor.inventory.cards.pop_back();
  vendor.answer_for_all();
  clock.advance(Duration::seconds(61));
  source.refresh();
  ASSERT_EQ(source.snapshot().inventory.cards.size(), 2U);
  EXPECT_FALSE(source.snapshot().inventory.cards[1].healthy);
  source.forget_missing([](const std::string& uuid) { return uuid == "b"; });
  EXPECT_EQ(source.snapshot().inventory.cards.size(), 2U);
  source.forget_missing([](const std::string&) { return false; });
  EXPECT_EQ(source.snapshot().inventory.cards.size(), 1U);
}

TEST(CardSource, ACardInThePlaceOfAVanishedOneComesFirst) {
  FakeVendor vendor;
  ManualClock clock(Time{0});
  CardSource source({.discover_interval = Duration::seconds(60)}, vendor.ask(), clock);
  source.refresh();
  // "a" is exchanged; what is there now must not hide behind what was.
  vendor.inventory.cards = {card("z", 0), card("b", 1)};
  vendor.answer_for_all();
  clock.advance(Duration::seconds(61));
  source.refresh();
  const std::vector<Card> cards = source.snapshot().inventory.cards;
  ASSERT_EQ(cards.size(), 3U);
  EXPECT_EQ(cards[0].uuid, "z");
  EXPECT_TRUE(cards[0].healthy);
  EXPECT_EQ(cards[1].uuid, "a");
  EXPECT_FALSE(cards[1].healthy);
}

TEST(CardSource, AnEventPassesAndOneThatNeedsAResetStaysUntilTheCardIsBack) {
  FakeVendor vendor;
  ManualClock clock(Time{0});
  CardSource source({.discover_interval = Duration::seconds(60), .event_hold = Duration::seconds(600)}, vendor.ask(),
                    clock);
  const auto message_of = [&](size_t index) {
    source.refresh();
    return source.snapshot().inventory.cards.at(index).health_message;
  };
  vendor.report.events = {{"a", "XID 63", false}, {"b", "XID 79", true}};
  EXPECT_EQ(message_of(0), "XID 63");
  EXPECT_EQ(message_of(1), "XID 79");
  clock.advance(Duration::seconds(599));
  vendor.report.events = {{"a", "XID 63", false}};
  EXPECT_EQ(message_of(0), "XID 63");
  vendor.report.events = {{"b", "XID 63", false}};
  clock.advance(Duration::seconds(599));
  EXPECT_EQ(message_of(0), "XID 63") << "the second event counts anew";
  EXPECT_EQ(message_of(1), "XID 79") << "a lesser event does not hide it";
  vendor.report.events.clear();
  clock.advance(Duration::seconds(600));
  EXPECT_EQ(message_of(0), "");
  EXPECT_EQ(message_of(1), "XID 79");
  vendor.report.cards.pop_back();
  EXPECT_NE(message_of(1), "") << "it is being reset";
  vendor.answer_for_all();
  EXPECT_EQ(message_of(1), "");
}

TEST(CardSource, AsksForTheCardsSeldomAndForTheStatusAlways) {
  FakeVendor vendor;
  ManualClock clock(Time{0});
  CardSource source({.discover_interval = Duration::seconds(60)}, vendor.ask(), clock);
  for (int i = 0; i < 10; ++i) source.refresh();
  EXPECT_EQ(vendor.card_calls, 1);
  clock.advance(Duration::seconds(60));
  source.refresh();
  EXPECT_EQ(vendor.card_calls, 2);
}

TEST(CardSource, StartsFromWhatItKnewBeforeARestart) {
  const TemporaryFolder temporary;
  const std::string& dir = temporary.path();
  ManualClock clock(Time{0});
  FakeVendor vendor;
  {
    CardSource(SourceOptions{.memory_file = dir + "/known.json"}, vendor.ask(), clock).refresh();
  }
  vendor.broken = true;
  CardSource source({.memory_file = dir + "/known.json"}, vendor.ask(), clock);
  source.refresh();
  ASSERT_EQ(source.snapshot().inventory.cards.size(), 2U);
  EXPECT_FALSE(source.snapshot().inventory.cards[0].healthy) << "nobody has confirmed it yet";
}

TEST(CardSource, AMachineWithoutTheVendorIsNotAFault) {
  FakeVendor vendor;
  vendor.inventory = {LibraryState::kMissing, "no library", "", {}};
  ManualClock clock(Time{0});
  CardSource source({}, vendor.ask(), clock);
  source.refresh();
  EXPECT_TRUE(source.snapshot().current);
  EXPECT_TRUE(source.snapshot().inventory.cards.empty());
}

TEST(CardSources, SayWhichVendorsLibraryDoesNotAnswer) {
  ManualClock clock(Time{0});
  CardSources sources({{"nvidia", {"/bin/false"}}, {"ascend", {"/bin/false"}}}, "", clock);
  sources.refresh();
  const Snapshot all = sources.snapshot();
  EXPECT_FALSE(all.current);
  EXPECT_TRUE(all.trouble.starts_with("nvidia: ")) << all.trouble;
  EXPECT_NE(all.trouble.find("; ascend: "), std::string::npos) << all.trouble;
  EXPECT_TRUE(CardSources({}, "", clock).snapshot().current) << "nobody to wait for";
}

// What is made shows at once, what is taken away is forgotten at once, and health stays what the last look said.
TEST(CardSource, APartitionComesAndGoesWithTheCallsThatMakeIt) {
  FakeVendor vendor;
  ManualClock clock(Time{0});
  const PartitionOrder order{"a", "1g.10gb", 2};
  const Ask plain = vendor.ask();
  const Ask ask = [&](std::string_view what, Duration deadline) -> Result<std::string> {
    return what == kAskCards || what == kAskStatus
               ? plain(what, deadline)
               : answer_partition_call(what, {[](const auto&, const auto& taken) -> Result<int64_t> {
                                                return static_cast<int64_t>(taken.size());
                                              },
                                              [&](const auto& wanted) -> Result<Inventory> {
                                                if (find_partition(vendor.inventory.cards, wanted) == nullptr) {
                                                  Card part = card("a-part", 0);
                                                  part.partition = {"a", wanted.profile, wanted.place, 9, 0};
                                                  vendor.inventory.cards.push_back(part);
                                                }
                                                return vendor.inventory;
                                              },
                                              [&](const auto& wanted) -> Result<Inventory> {
                                                std::erase_if(vendor.inventory.cards,
                                                              [&](const Card& one) { return is_ordered(one, wanted); });
                                                return vendor.inventory;
                                              }});
  };
  CardSource source({}, ask, clock);
  vendor.report.cards[1].healthy = false;
  source.refresh();
  EXPECT_EQ(source.place_partition(order, {7, 8}), 2);
  const auto made = source.make_partition(order);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->uuid, "a-part");
  EXPECT_EQ(made->partition.gpu_instance, 9);
  std::vector<Card> cards = source.snapshot().inventory.cards;
  ASSERT_EQ(cards.size(), 3U);
  EXPECT_FALSE(std::ranges::find(cards, "b", &Card::uuid)->healthy);
  ASSERT_TRUE(source.drop_partition(order));
  cards = source.snapshot().inventory.cards;
  EXPECT_EQ(cards.size(), 2U) << "not kept as a card that vanished";
  vendor.broken = true;
  source.refresh();
  EXPECT_EQ(source.snapshot().inventory.cards.size(), 2U);
  for (const char* text : {"make", "make x", "burn {}", "place {}"}) {
    EXPECT_FALSE(answer_partition_call(text, {})) << text;
  }
  for (const char* text : {"", "-1", "1x", "99999999999999999999"}) EXPECT_FALSE(parse_place(text)) << text;
}

}  // namespace
}  // namespace heddle::vendors
