// nvsim-run: a CUDA program made of steps on its command line, for tests of whatever stands between it and the card.
// Exit codes: 0 every step did what it should, 1 usage, 2 a step failed (the run ends there), 3 an error.
#include <csignal>
#include <cstdio>
#include <thread>

#include "run/session.h"

extern "C" void nvsim_run_on_signal(int);
// Under a sanitizer: ending with memory of the card still taken is what many runs are for, and no leak.
// NOLINTNEXTLINE(readability-identifier-naming): the sanitizer's name
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() {  // NOLINT(readability-identifier-naming): the sanitizer's name
  return "detect_leaks=0";
}

namespace nvsim::run {
namespace {

constexpr const char* kHelp =
    "usage: nvsim-run [lib=PATH] [nvml=PATH] [via=getproc|dlsym|link|dlmopen] [streams=legacy|ptsz] STEP...\n"
    "A step is name or name=value; 'name value' with leading dashes is taken too (--alloc 3000Mi).\n"
    "memory:  alloc=SIZE alloc-managed= alloc-async= alloc-pool= alloc-pitch= alloc-vmm= alloc-array= alloc-mipmap=\n"
    "         alloc-host=   expect-oom=SIZE|FAMILY:SIZE   free[=all]   memcpy=SIZE (round trip in the last "
    "allocation)\n"
    "         pool[=trim:SIZE|threshold:SIZE]\n"
    "look:    totals expect-total=SIZE nvml-memory nvml-processes nvml-load devices[=COUNT]\n"
    "work:    launch=DURATION[*COUNT] launch-ex= launch-coop= launch-graph= launch-async= sync event-time=DURATION\n"
    "         kernel=DURATION measure-share=DURATION work-until=PATH expect-share=LOW-HIGH\n"
    "process: init expect-init=CODE expect-error=CODE device=N context reset hold[=DURATION] sleep=DURATION fork\n"
    "         fork-idle=DURATION closefrom=N touch=PATH wait-file=PATH threads=N (the next step in N threads at "
    "once)\n";

struct Call {
  std::string name, value;
};

// True when the token configures the run instead of being a step of it.
bool configure(Session& session, const Call& call, bool& valid) {
  if (call.name == "lib") {
    session.source.cuda_library = call.value;
  } else if (call.name == "nvml") {
    session.source.nvml_library = call.value;
  } else if (call.name == "via") {
    static const std::map<std::string, Via> ways = {
        {"getproc", Via::kGetProc}, {"dlsym", Via::kDlsym}, {"link", Via::kLink}, {"dlmopen", Via::kDlmopen}};
    const auto way = ways.find(call.value);
    valid = way != ways.end();
    if (valid) session.source.via = way->second;
  } else if (call.name == "streams") {
    valid = call.value == "legacy" || call.value == "ptsz";
    session.source.per_thread = call.value == "ptsz";
  } else {
    return false;
  }
  return true;
}

bool takes_no_value(const std::string& name) {
  static const char* const names[] = {"totals", "print-totals", "nvml-memory", "nvml-processes", "nvml-load",
                                      "sync",   "init",         "fork",        "reset",          "context"};
  for (const char* one : names) {
    if (name == one) {
      return true;
    }
  }
  return false;
}

std::vector<Call> parse(int count, char** arguments) {
  std::vector<Call> calls;
  for (int index = 1; index < count; ++index) {
    std::string token = arguments[index];
    const bool dashed = token.starts_with("--");
    token = dashed ? token.substr(2) : token;
    const std::size_t equals = token.find('=');
    Call call = {token.substr(0, equals), equals == std::string::npos ? "" : token.substr(equals + 1)};
    const bool next_is_value = index + 1 < count && std::string(arguments[index + 1]).rfind("--", 0) != 0;
    if (dashed && equals == std::string::npos && !takes_no_value(call.name) && next_is_value) {
      call.value = arguments[++index];
    }
    calls.push_back(call);
  }
  return calls;
}

// False: the step failed.
bool run_in_threads(Session& session, const Call& call, const Step& step, int count) {
  if (count == 1) {
    const Outcome outcome = step(session, call.value);
    print_line(call.name, outcome);
    return outcome.ok;
  }
  bool all = true;
  std::mutex mutex;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&] {
      const Outcome outcome = step(session, call.value);
      print_line(call.name, outcome);
      const std::lock_guard guard(mutex);
      all = all && outcome.ok;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return all;
}

int run(const std::vector<Call>& calls) {
  Session session;
  std::map<std::string, Step> steps;
  add_memory_steps(steps);
  add_work_steps(steps);
  add_process_steps(steps);
  int threads = 1;
  for (const Call& call : calls) {
    bool valid = true;
    if (configure(session, call, valid)) {
      if (!valid) {
        std::fputs(kHelp, stderr);
        return 1;
      }
      continue;
    }
    if (call.name == "threads") {
      threads = std::max(1, std::atoi(call.value.c_str()));
      continue;
    }
    const auto step = steps.find(call.name);
    if (step == steps.end()) {
      std::fprintf(stderr, "nvsim-run: unknown step '%s'\n%s", call.name.c_str(), kHelp);
      return 1;
    }
    if (!run_in_threads(session, call, step->second, threads)) {
      return 2;
    }
    threads = 1;
  }
  return 0;
}

}  // namespace
}  // namespace nvsim::run

int main(int count, char** arguments) {
  struct sigaction action = {};
  action.sa_handler = nvsim_run_on_signal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  const auto calls = nvsim::run::parse(count, arguments);
  if (calls.empty()) {
    std::fputs(nvsim::run::kHelp, stderr);
    return 1;
  }
  return nvsim::run::run(calls);
}
