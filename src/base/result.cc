#include "base/result.h"

#include <cstring>

namespace heddle {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "InvalidArgument";
    case Code::kNotFound:
      return "NotFound";
    case Code::kAlreadyExists:
      return "AlreadyExists";
    case Code::kConflict:
      return "Conflict";
    case Code::kGone:
      return "Gone";
    case Code::kPermissionDenied:
      return "PermissionDenied";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kDeadlineExceeded:
      return "DeadlineExceeded";
    case Code::kExhausted:
      return "Exhausted";
    case Code::kUnsupported:
      return "Unsupported";
    case Code::kInternal:
      return "Internal";
  }
  return "Internal";
}

std::string Error::text() const {
  return field.empty() ? message : field + ": " + message;
}

tl::unexpected<Error> fail_errno(std::string_view what, int error_number) {
  Code code = Code::kInternal;
  if (error_number == ENOENT) code = Code::kNotFound;
  if (error_number == EEXIST) code = Code::kAlreadyExists;
  if (error_number == EACCES || error_number == EPERM) code = Code::kPermissionDenied;
  if (error_number == ECONNREFUSED || error_number == EAGAIN) code = Code::kUnavailable;
  if (error_number == ENOSPC || error_number == ENOMEM) code = Code::kExhausted;
  return fail(code, std::string(what) + ": " + std::strerror(error_number));
}

}  // namespace heddle
