#include "agent/mps.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "base/file.h"

namespace heddle::agent {
namespace {

// The leading number of a text; 0: there is none.
int64_t number(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? value : 0;
}

// Field 4 of its stat: behind the name, which may hold anything, come the state and the parent.
int64_t parent_of(const std::string& proc, int64_t pid) {
  const auto text = read_file(proc + "/" + std::to_string(pid) + "/stat", 4096);
  const size_t name_end = text ? text->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos || name_end + 4 >= text->size()) return 0;
  return number(std::string_view(*text).substr(name_end + 4));
}

}  // namespace

std::vector<vendors::Card> with_mps(std::vector<vendors::Card> cards, const std::string& pipe) {
  const bool serves = !pipe.empty() && file_exists(pipe + "/control");
  for (vendors::Card& card : cards) card.mps = serves && card.vendor == "nvidia" && !card.is_partition();
  return cards;
}

std::vector<vendors::CardStatus> without_mps_servers(std::vector<vendors::CardStatus> statuses, const std::string& pipe,
                                                     const std::string& proc) {
  if (pipe.empty()) return statuses;
  const auto text = read_file(pipe + "/nvidia-cuda-mps-control.pid", 64);
  const int64_t daemon = text ? number(*text) : 0;
  if (daemon <= 0) return statuses;
  for (vendors::CardStatus& card : statuses) {
    std::erase_if(card.processes,
                  [&](const vendors::CardProcess& process) { return parent_of(proc, process.pid) == daemon; });
  }
  return statuses;
}

}  // namespace heddle::agent
