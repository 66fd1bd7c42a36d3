// The readers of parts that several objects share. Inside this folder only.
#pragma once

#include "codec/json_reader.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/meta.h"

namespace heddle::codec {

model::ObjectMeta read_meta(const JsonValue& in);
model::Toleration read_toleration(const JsonValue& in);
model::Taint read_taint(const JsonValue& in);
model::NodeSelector read_node_selector(const JsonValue& in);
model::OpaqueConfig read_config(const JsonValue& in);  // requests and opaque
std::vector<std::string> read_selectors(const JsonValue& in);
model::ClaimSpec read_claim_spec(const JsonValue& in);
model::Allocation read_allocation(const JsonValue& in);

// A reader for each item of a list.
template <typename Read>
auto read_list(const JsonValue& in, Read read) {
  std::vector<decltype(read(in))> result;
  in.each([&](const JsonValue& item) { result.push_back(read(item)); });
  return result;
}

}  // namespace heddle::codec
