#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

model::PersistentVolume read_volume(const JsonValue& in) {
  model::PersistentVolume volume;
  volume.meta = read_meta(in["metadata"]);
  const JsonValue required = in["spec"]["nodeAffinity"]["required"];
  if (required.present()) volume.node_affinity = read_node_selector(required);
  return volume;
}

model::PersistentVolumeClaim read_volume_claim(const JsonValue& in) {
  return {.meta = read_meta(in["metadata"]), .volume_name = in["spec"]["volumeName"].text()};
}

}  // namespace

Result<model::PersistentVolume> parse_volume(std::string_view json) {
  return read_document(json, read_volume);
}
Result<model::PersistentVolumeClaim> parse_volume_claim(std::string_view json) {
  return read_document(json, read_volume_claim);
}

}  // namespace heddle::codec
