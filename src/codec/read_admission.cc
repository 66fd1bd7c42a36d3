#include "codec/admission.h"
#include "codec/json_reader.h"

namespace heddle::codec {
namespace {

AdmissionReview read_review(const JsonValue& in) {
  if (in["kind"].text() != "AdmissionReview") in["kind"].wrong("must be AdmissionReview");
  const JsonValue request = in["request"];
  AdmissionReview out;
  out.uid = request["uid"].text();
  if (out.uid.empty()) request["uid"].wrong("must be set");
  out.operation = request["operation"].text();
  out.kind = request["kind"]["kind"].text();
  out.name_space = request["namespace"].text();
  out.user = request["userInfo"]["username"].text();
  if (request["object"].present()) out.object = request["object"].raw();
  if (request["oldObject"].present()) out.old_object = request["oldObject"].raw();
  return out;
}

}  // namespace

Result<AdmissionReview> parse_admission_review(std::string_view json) {
  return read_document(json, read_review);
}

}  // namespace heddle::codec
