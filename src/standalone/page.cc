#include "standalone/page.h"

#include <fmt/format.h>

#include <string_view>

namespace heddle::standalone {
namespace {

constexpr std::string_view kStyle = R"(
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c2330;background:#fff}
table{border-collapse:collapse;width:100%;margin:.5rem 0 2rem}th,td{text-align:left;padding:.35rem .7rem .35rem 0;
border-bottom:1px solid #d8dde6;vertical-align:top}th{font-weight:600}code{font-size:.92em;overflow-wrap:anywhere}
.bar{background:#e3e7ee;height:.7rem;width:14rem;border-radius:2px}.bar i{display:block;height:100%;background:#2f6f5e;
border-radius:2px}.sim{background:#fff1c2;border:1px solid #c99a00;padding:.5rem .8rem}.bad{color:#a3261b}
@media (prefers-color-scheme:dark){body{background:#14181f;color:#e4e8ef}th,td{border-color:#333b47}.bar{background:#2c333e}
.bar i{background:#5fb39b}.sim{background:#3a3110;border-color:#8d7113}.bad{color:#ff8d80}}
)";

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

int64_t percent(int64_t part, int64_t whole) {
  return whole > 0 ? std::min<int64_t>(100, part * 100 / whole) : 0;
}

std::string command_of(const Job& job) {
  return fmt::format("{}", fmt::join(job.request.command, " "));
}

std::string card_row(const CardView& card, Origin origin) {
  const std::string health =
      card.card.healthy ? "" : fmt::format(" <span class=bad>{}</span>", escape(card.card.health_message));
  return fmt::format(
      "<tr><td>{}{}<td>{}{}<td><div class=bar><i style=\"width:{}%\"></i></div>{} of {}<td>{}%<td>{}</tr>\n",
      escape(card.name), origin == Origin::kSimulated ? " (SIMULATED)" : "", escape(card.card.model), health,
      percent(card.granted_bytes, card.memory_bytes), format_bytes(card.granted_bytes), format_bytes(card.memory_bytes),
      card.granted_cores, card.holders.size());
}

std::string job_row(const JobView& view) {
  std::string where;
  for (const auto& share : view.shares) {
    where +=
        fmt::format("{}{}: {}{}", where.empty() ? "" : "<br>", escape(share.card), format_bytes(share.memory_bytes),
                    share.used_bytes < 0 ? "" : fmt::format(" ({} MiB used)", share.used_bytes >> 20));
  }
  if (view.position > 0) {
    where = fmt::format("place {} in {}", view.position,
                        view.queue.empty() ? std::string("the queue") : "queue " + escape(view.queue));
    for (const auto& reason : view.reasons)
      where += fmt::format("<br>{}: {}", escape(reason.code), escape(reason.message));
  }
  return fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td><code>{}</code></tr>\n", view.job.id,
                     escape(view.job.request.name), escape(view.job.owner.name), state_name(view.job.state),
                     escape(describe(view.job.request)), where, escape(command_of(view.job)));
}

std::string ended_row(const Job& job) {
  return fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td><code>{}</code></tr>\n", job.id, escape(job.request.name),
                     escape(job.owner.name), job.ended ? format_rfc3339(*job.ended) : "", escape(job.outcome),
                     escape(command_of(job)));
}

}  // namespace

std::string status_page(const View& view) {
  std::string page = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>"
      "<meta name=viewport content=\"width=device-width\"><title>Heddle on {0}</title><style>{1}</style>"
      "<h1>Heddle on {0}</h1>\n",
      escape(view.node), kStyle);
  if (view.origin == Origin::kSimulated) {
    page += fmt::format(
        "<p class=sim><b>SIMULATED</b>: these cards ({}) do not exist; nothing here is real hardware.</p>\n",
        escape(view.what));
  }
  page += "<h2>Cards</h2><table><tr><th>card<th>model<th>memory granted<th>compute granted<th>jobs</tr>\n";
  for (const auto& card : view.cards) page += card_row(card, view.origin);
  page += "</table><h2>Jobs</h2>";
  if (view.jobs.empty()) {
    page += "<p>None. Start one: <code>heddle run --memory 8Gi --cores 30 -- COMMAND</code></p>\n";
  } else {
    page += "<table><tr><th>job<th>name<th>user<th>state<th>asks for<th>has / waits for<th>command</tr>\n";
    for (const auto& job : view.jobs) page += job_row(job);
    page += "</table>";
  }
  if (!view.ended.empty()) {
    page += "<h2>Ended</h2><table><tr><th>job<th>name<th>user<th>ended<th>how<th>command</tr>\n";
    for (const auto& job : view.ended) page += ended_row(job);
    page += "</table>";
  }
  return page + "</html>\n";
}

}  // namespace heddle::standalone
