#include "cli/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
T parsed(const std::vector<std::string>& words) {
  const auto result = parse_args(words);
  if (const auto* message = std::get_if<Message>(&result)) ADD_FAILURE() << message->text;
  return std::get<T>(std::get<Args>(result));
}

Message refused(const std::vector<std::string>& words) {
  const auto result = parse_args(words);
  if (const auto* message = std::get_if<Message>(&result)) return *message;
  ADD_FAILURE() << "it was accepted";
  return {};
}

TEST(Args, RunTakesAShareAndACommand) {
  const auto args = parsed<RunArgs>({"run", "--memory", "8Gi", "--cores", "30", "--name", "n", "--priority=-5",
                                     "--timeout", "10m", "--", "python3", "train.py", "--memory", "x", "--", "-v"});
  EXPECT_EQ(args.request.memory_bytes, int64_t{8} << 30);
  EXPECT_EQ(args.request.cores, 30);
  EXPECT_EQ(args.request.priority, -5);
  EXPECT_EQ(args.timeout_seconds, 600);
  EXPECT_EQ(args.request.patience, standalone::Patience::kWait);
  EXPECT_THAT(args.request.command, ElementsAre("python3", "train.py", "--memory", "x", "--", "-v"));
}

TEST(Args, RunNeedsNoMarkBeforeTheCommand) {
  const auto args = parsed<RunArgs>({"run", "--count", "2", "--no-wait", "nvidia-smi", "-L", "--cores", "7"});
  EXPECT_EQ(args.request.count, 2);
  EXPECT_EQ(args.request.cores, std::nullopt) << "it is the command's";
  EXPECT_EQ(args.request.patience, standalone::Patience::kRefuse);
  EXPECT_THAT(args.request.command, ElementsAre("nvidia-smi", "-L", "--cores", "7"));
}

TEST(Args, GuardLooksTracesAndTests) {
  EXPECT_EQ(parsed<GuardArgs>({"guard", "status", "-o", "json"}).output, Output::kJson);
  const auto trace = parsed<GuardArgs>({"guard", "trace", "uid-1", "--seconds", "3"});
  EXPECT_EQ(trace.action, "trace");
  EXPECT_EQ(trace.claim, "uid-1");
  EXPECT_EQ(trace.seconds, 3);
  EXPECT_EQ(parsed<GuardArgs>({"guard", "selftest", "--libraries", "/l"}).libraries, "/l");
  EXPECT_THAT(refused({"guard"}).text, HasSubstr("action"));
  EXPECT_THAT(refused({"guard", "trace", "a", "b"}).text, HasSubstr("a word too many"));
  EXPECT_TRUE(parsed<UpArgs>({"up", "--strict-shares"}).options.strict_shares);
  EXPECT_FALSE(parsed<UpArgs>({"up"}).options.strict_shares);
}

TEST(Args, SimulateTakesATraceAndAPolicy) {
  const auto plain = parsed<SimulateArgs>({"simulate", "--nodes", "n", "--pods", "p"});
  EXPECT_EQ(plain.policy, placement::PolicyName::kHeddle);
  EXPECT_FALSE(plain.mix_is_known);
  const auto args = parsed<SimulateArgs>({"simulate", "--nodes", "n", "--pods", "p", "--policy", "fgd", "--mix",
                                          "known", "--seed", "51", "--load", "130", "-o", "json"});
  EXPECT_EQ(args.nodes_file, "n");
  EXPECT_EQ(args.pods_file, "p");
  EXPECT_EQ(args.policy, placement::PolicyName::kFgd);
  EXPECT_TRUE(args.mix_is_known);
  EXPECT_EQ(args.seed, 51U);
  EXPECT_EQ(args.load_percent, 130);
  EXPECT_EQ(args.output, Output::kJson);
  for (const auto& [flag, value] : std::vector<std::pair<const char*, const char*>>{
           {"--load", "0"}, {"--load", "-5"}, {"--load", "1e2"}, {"--seed", "-1"}, {"--policy", "x"}, {"--mix", "x"}}) {
    const auto message = refused({"simulate", "--nodes", "n", "--pods", "p", flag, value});
    EXPECT_EQ(message.exit_code, 1) << flag << value;
    EXPECT_THAT(message.text, HasSubstr(flag));
  }
  EXPECT_THAT(refused({"simulate", "--nodes", "n"}).text, HasSubstr("--pods is missing"));
  EXPECT_THAT(refused({"simulate", "--pods", "n"}).text, HasSubstr("--nodes is missing"));
}

TEST(Args, SimulateTakesAFleetAndItsWorkloads) {
  const auto args = parsed<SimulateArgs>({"simulate", "--fleet", "f", "--workloads", "w", "--seed", "7"});
  EXPECT_EQ(args.fleet_file, "f");
  EXPECT_EQ(args.workloads_file, "w");
  EXPECT_EQ(args.seed, 7U);
  for (const char* flag : {"--load", "--policy", "--mix"}) {
    const std::string value = std::string(flag) == "--load" ? "90" : std::string(flag) == "--mix" ? "known" : "fgd";
    EXPECT_THAT(refused({"simulate", "--fleet", "f", "--workloads", "w", flag, value}).text,
                HasSubstr("leave --nodes, --pods, --load, --policy and --mix out"));
  }
  EXPECT_THAT(refused({"simulate", "--fleet", "f"}).text, HasSubstr("--workloads is missing"));
  EXPECT_THAT(refused({"simulate", "--workloads", "w"}).text, HasSubstr("--fleet is missing"));
  EXPECT_THAT(refused({"simulate"}).text, HasSubstr("--fleet and --workloads, or --nodes and --pods"));
  EXPECT_THAT(refused({"simulate", "--fleet", "f", "--workloads", "w", "--pods", "p"}).text,
              HasSubstr("leave --nodes, --pods, --load, --policy and --mix out"));
}

TEST(Args, CatalogTakesAnAction) {
  const auto show = parsed<CatalogArgs>({"catalog", "show", "nvidia/A30", "--catalog", "d", "-o", "json"});
  EXPECT_EQ(show.action, CatalogArgs::Action::kShow);
  EXPECT_EQ(show.what, "nvidia/A30");
  EXPECT_EQ(show.folder, "d");
  EXPECT_EQ(show.output, Output::kJson);
  EXPECT_THAT(parsed<CatalogArgs>({"catalog", "validate", "a", "b"}).files, ElementsAre("a", "b"));
  EXPECT_EQ(parsed<CatalogArgs>({"catalog", "list"}).action, CatalogArgs::Action::kList);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"catalog", "list", "x"},
                                                {"catalog", "show"},
                                                {"catalog", "validate"},
                                                {"catalog", "x"}}) {
    EXPECT_THAT(refused(words).text, HasSubstr("write `list`, `show VENDOR[/MODEL]` or `validate FILE...`"));
    EXPECT_EQ(refused(words).exit_code, 1);
  }
}

TEST(Args, WrongLinesNameTheFlagAndTheFix) {
  struct Case {
    std::vector<std::string> words;
    const char* text;
  };
  const std::vector<Case> cases = {
      {{}, "`heddle help` lists all verbs"},
      {{"runn"}, "unknown verb 'runn'"},
      {{"help", "runn"}, "unknown verb 'runn'"},
      {{"--bogus"}, "unknown option '--bogus'"},
      {{"--", "true"}, "`heddle help`"},
      {{"catalog"}, "catalog: action is missing"},
      {{"up", "--bogus"}, "up: unknown option '--bogus'; `heddle up --help`"},
      {{"up", "now"}, "up: 'now' is a word too many"},
      {{"up", "--simulate"}, "--simulate: the value is missing; `heddle up --help`"},
      {{"up", "--simulate", ""}, "--simulate: the value is empty"},
      {{"run", "--memory", "", "--", "true"}, "--memory: the value is empty"},
      {{"run", "--cores", "", "--memory", "1Gi", "--", "true"}, "--cores: the value is empty"},
      {{"explain", ""}, "job-or-pod: the value is empty"},
      {{"run"}, "no command"},
      {{"run", "--memory", "8Gi"}, "behind --"},
      {{"run", "--memroy", "8Gi", "--", "true"}, "unknown option '--memroy'"},
      {{"run", "--memory", "16", "--", "true"}, "--memory: '16' has no unit: write 16Gi or 16Mi"},
      {{"run", "--memory", "8GB", "--", "true"}, "--memory: '8GB' is not an amount"},
      {{"run", "--memory", "8Gi", "--isolation", "hard", "--", "true"}, "--isolation: 'hard': write soft"},
      {{"run", "--memory", "8Gi", "--isolation", "mps", "--", "true"}, "--isolation: mps needs --cores"},
      {{"run", "--memory", "8Gi", "--virtual-memory", "12", "--", "true"}, "--virtual-memory: '12' has no unit"},
      {{"run", "--memory", "8Gi", "--virtual-memory", "8Gi", "--", "true"},
       "--virtual-memory: 8Gi must be more than the 8Gi of --memory"},
      {{"run", "--memory", "8Gi", "--virtual-memory", "16Ti", "--", "true"}, "--virtual-memory: 16Ti is too much"},
      {{"run", "--cores", "150", "--memory", "1Gi", "--", "true"},
       "--cores: '150': write a whole number from 0 to 100"},
      {{"run", "--cores", "many", "--memory", "1Gi", "--", "true"}, "--cores: 'many': write"},
      {{"run", "--cores", "30%", "--memory", "1Gi", "--", "true"}, "--cores: '30%': write"},
      {{"run", "--cores", "99999999999999999999", "--memory", "1Gi", "--", "true"}, "--cores: '99999999999999999999'"},
      {{"run", "--memory-percent", "0", "--", "true"}, "--memory-percent: '0': write a whole number from 1 to 100"},
      {{"run", "--count", "0", "--", "true"}, "--count: '0': write a whole number from 1 to 32"},
      {{"run", "--priority", "-1001", "--", "true"}, "--priority: '-1001': write a whole number from -1000 to 1000"},
      {{"run", "--name", "7", "--", "true"}, "--name: '7' is a number"},
      {{"run", "--name", "a\nb", "--", "true"}, "--name: a control character"},
      {{"run", "--name", std::string(65, 'x'), "--", "true"}, "--name: 65 characters"},
      {{"run", "--no-wait", "--timeout", "5s", "--", "true"}, "--timeout"},
      {{"run", "--timeout", "10", "--", "true"}, "--timeout: '10' is not a duration"},
      {{"ps", "-o", "xml"}, "--output: 'xml' is not known: write table or json"},
      {{"ps", "--", "true"}, "only `heddle run`"},
      {{"up", "--dashboard-port", "99999"}, "--dashboard-port"},
      {{"up", "--starve-after", "-1s"}, "--starve-after"},
      {{"run", "--requeue", "--no-requeue", "--", "true"}, "--no-requeue: --requeue says the opposite"},
      {{"up", "--evict-grace", "0s"}, "--evict-grace: '0s': write 1s to 24h"},
      {{"run", "--deadline", "0s", "--", "true"}, "--deadline: 0 s: write 1s to 8760h"},
      {{"run", "--deadline", "soon", "--", "true"}, "--deadline"},
      {{"run", "--placement-policy", "first", "--", "true"},
       "--placement-policy: is \"first\": write packing, best-fit"},
      {{"plan", "--flie", "x"}, "plan: unknown option '--flie'; `heddle plan --help`"},
      {{"plan", "-f"}, "--file: the value is missing"},
      {{"translate", "-f", "a", "-f", "b"}, "--file: is given more than once: keep one"},
      {{"up", "--simulate", "a", "--simulate", "b"}, "--simulate: is given more than once: keep one"},
      {{"guard", "status", "extra"}, "guard status: 'extra' is for `heddle guard trace`: leave it out"},
      {{"guard", "status", "--seconds", "3"}, "guard status: --seconds is for `heddle guard trace`"},
      {{"guard", "trace", "--libraries", "l"}, "guard trace: --libraries is for `heddle guard selftest`"},
      {{"guard", "selftest", "-o", "json"}, "guard selftest: --output is for `heddle guard status`"},
      {{"explain"}, "explain: job-or-pod is missing; `heddle explain --help`"},
      {{"cancel"}, "cancel: job is missing"},
      {{"translate"}, "translate: --file is missing"},
      {{"uninstall"}, "--plan"},
      {{"uninstall", "--plan", "--yes"}, "--plan"},
  };
  for (const auto& c : cases) {
    const auto message = refused(c.words);
    EXPECT_EQ(message.exit_code, 1) << testing::PrintToString(c.words);
    EXPECT_THAT(message.text, HasSubstr(c.text)) << testing::PrintToString(c.words);
    EXPECT_EQ(std::count(message.text.begin(), message.text.end(), '\n'), 1) << message.text;
  }
}

TEST(Args, EveryVerbHasHelpWithAnExample) {
  for (const char* verb : {"up", "run", "ps", "explain", "queue", "cancel", "down", "uninstall", "translate", "migrate",
                           "allocate", "plan", "cel", "catalog", "simulate", "guard", "version"}) {
    const auto help = refused({verb, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.text, HasSubstr("Example")) << verb;
    EXPECT_THAT(help.text, HasSubstr(std::string("heddle ") + verb)) << verb;
    EXPECT_THAT(help.text, testing::Not(HasSubstr("crash"))) << "for tests only";
  }
  EXPECT_EQ(refused({"help", "run"}).text, refused({"run", "--help"}).text);
  EXPECT_THAT(refused({"help"}).text, HasSubstr("`heddle help VERB` shows its options and an example"));
  EXPECT_EQ(refused({"help"}).exit_code, 0);
  EXPECT_THAT(refused({"--help"}).text, testing::Not(HasSubstr("vendor-worker")));
}

TEST(Args, NumbersAndNamesArriveAsWritten) {
  const auto args = parsed<RunArgs>({"run", "--memory-percent", "50", "--cores", "0", "--count", "2", "--priority",
                                     "-5", "--name", "日本 1", "--", "true"});
  EXPECT_EQ(args.request.memory_percent, 50);
  EXPECT_EQ(args.request.cores, 0);
  EXPECT_EQ(args.request.count, 2);
  EXPECT_EQ(args.request.priority, -5);
  EXPECT_EQ(args.request.name, "日本 1");
  const auto plain = parsed<RunArgs>({"run", "true"});
  EXPECT_FALSE(plain.request.cores);
  EXPECT_EQ(plain.request.count, 1);
  parsed<VersionArgs>({"--version"});
}

TEST(Args, UpKeepsItsChoices) {
  auto args = parsed<UpArgs>({"up"});
  EXPECT_EQ(args.options.page, standalone::Page::kDefaultPort);
  EXPECT_EQ(args.options.queue.starvation_bound, Duration::seconds(600));
  EXPECT_FALSE(args.foreground);
  args =
      parsed<UpArgs>({"up", "--simulate", "h100x2", "--dashboard-port", "off", "--starve-after", "2h", "--foreground"});
  EXPECT_EQ(args.options.machine.simulate, "h100x2");
  EXPECT_EQ(args.options.page, standalone::Page::kOff);
  EXPECT_EQ(args.options.queue.starvation_bound, Duration::seconds(7200));
  EXPECT_TRUE(args.foreground);
  EXPECT_TRUE(args.queues_file.empty());
  args = parsed<UpArgs>({"up", "--dashboard-port", "0", "--queues", "q.yaml"});
  EXPECT_EQ(args.queues_file, "q.yaml");
  EXPECT_EQ(parsed<RunArgs>({"run", "--queue", "a", "--", "true"}).request.queue, "a");
  const auto spread = parsed<RunArgs>({"run", "--placement-policy", "spread", "--", "true"});
  EXPECT_EQ(spread.request.placement_policy, model::PlacementPolicy::kSpread);
  const auto reserved = parsed<RunArgs>({"run", "--reservation", "r", "--deadline", "2h", "--", "true"});
  EXPECT_EQ(reserved.request.reservation, "r");
  EXPECT_EQ(reserved.request.deadline_seconds, 7200);
  EXPECT_EQ(reserved.request.on_eviction, standalone::OnEviction::kEnd) << "nothing is run twice unasked";
  EXPECT_EQ(parsed<RunArgs>({"run", "--requeue", "--", "true"}).request.on_eviction, standalone::OnEviction::kRequeue);
  EXPECT_EQ(parsed<RunArgs>({"run", "--no-requeue", "--", "true"}).request.on_eviction, standalone::OnEviction::kEnd);
  EXPECT_EQ(parsed<UpArgs>({"up"}).options.eviction_grace, Duration::seconds(30));
  EXPECT_EQ(parsed<UpArgs>({"up", "--evict-grace", "2h"}).options.eviction_grace, Duration::seconds(7200));
  EXPECT_EQ(args.options.page, standalone::Page::kPort);
  EXPECT_EQ(args.options.page_port, 0);
}

TEST(Args, ClusterFlagsMakeExplainAskTheCluster) {
  EXPECT_TRUE(parsed<ExplainArgs>({"explain", "7"}).name_space.empty());
  EXPECT_EQ(parsed<ExplainArgs>({"explain", "-n", "research", "p"}).name_space, "research");
  EXPECT_EQ(parsed<ExplainArgs>({"explain", "p", "-o", "json"}).output, Output::kJson);
}

TEST(ParseDuration, KnowsThreeUnits) {
  EXPECT_EQ(parse_duration("0s").value(), 0);
  EXPECT_EQ(parse_duration("90s").value(), 90);
  EXPECT_EQ(parse_duration("2h").value(), 7200);
  for (const char* bad : {"", "s", "5", "5d", "-5s", "1.5h", "99999999999999999999s", "9223372036854775807h", "5 s"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

}  // namespace
}  // namespace heddle::cli
