// The writers of parts that several objects share. Inside this folder only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "codec/json_writer.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/meta.h"

namespace heddle::codec {

void write_meta(JsonWriter& out, const model::ObjectMeta& meta);
void write_node_selector(JsonWriter& out, const model::NodeSelector& selector);
void write_taint(JsonWriter& out, const model::Taint& taint);
void write_toleration(JsonWriter& out, const model::Toleration& toleration);

// Fields that are left out when empty, as Kubernetes does.
void write_text(JsonWriter& out, std::string_view key, std::string_view value);
void write_true(JsonWriter& out, std::string_view key, bool value);
void write_texts(JsonWriter& out, std::string_view key, const std::vector<std::string>& values);
void write_text_map(JsonWriter& out, std::string_view key, const std::map<std::string, std::string>& values);
void write_quantity_map(JsonWriter& out, std::string_view key, const std::map<std::string, Quantity>& values);

template <typename T, typename Write>
void write_list(JsonWriter& out, std::string_view key, const std::vector<T>& items, Write write) {
  if (items.empty()) return;
  out.key(key).begin_list();
  for (const T& item : items) write(out, item);
  out.end_list();
}

}  // namespace heddle::codec
