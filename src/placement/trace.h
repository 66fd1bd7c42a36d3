// Traces in the CSV form of Alibaba's cluster-trace-gpu-v2023 ("openb").
//
// Nodes: sn,cpu_milli,memory_mib,gpu,model. Pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli and, where there,
// gpu_spec (allowed models, separated by |; empty: any), creation_time and deletion_time (seconds). Columns are found
// by name, in any order; others are ignored. num_gpu 1 with gpu_milli below 1000 shares a card; 2 and more are whole
// cards. Fields may be quoted as in RFC 4180; lines may end in CRLF; a byte order mark and empty lines are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "placement/types.h"

namespace heddle::placement {

struct TracePod {
  Request request;
  // Seconds since the start of the trace. Without these columns both are 0.
  int64_t created = 0;
  int64_t deleted = 0;  // not before created
};

struct Trace {
  std::vector<Node> nodes;          // in the order of the file
  std::vector<std::string> models;  // by kind; models that only pods name come last
  std::vector<TracePod> pods;
  bool has_times = false;

  [[nodiscard]] int64_t card_milli() const;  // of all nodes
};

// A text and what to call it in errors.
struct NamedText {
  std::string_view name;
  std::string_view text;
};

// Errors: kInvalidArgument; the field is "FILE:LINE: COLUMN", the message what is wrong with it.
Result<Trace> parse_trace(const NamedText& nodes, const NamedText& pods);

}  // namespace heddle::placement
