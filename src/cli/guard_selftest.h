// The verdict of `heddle guard selftest`: what the probe said, held against what was given. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cli {

// "name value" a line; the last one of a name counts.
using ProbeAnswers = std::map<std::string, std::string>;
ProbeAnswers parse_answers(std::string_view text);

struct Check {
  std::string name;
  bool good = false;
  std::string detail;
};

// limit: what the guard was told, in bytes. charged: what its account says when the probe is gone; -1: not readable.
// unknown: entry points of the driver that the guard does not know; -1: likewise.
std::vector<Check> judge_probe(const ProbeAnswers& answers, int64_t limit, int64_t charged, int64_t unknown);

// The checks, and in the last line whether the guard holds.
std::string verdict_text(const std::vector<Check>& checks);
bool all_good(const std::vector<Check>& checks);

}  // namespace heddle::cli
