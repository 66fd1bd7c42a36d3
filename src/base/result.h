// Result<T>: a value or an Error with a closed code. Callers branch on the code, never on the text.
// A correct "no" (a pod that does not fit) is a value of the module that decides it, not an Error.
#pragma once

#include <string>
#include <string_view>

// Before its definition, so that a Result that nobody looks at is a warning: compilers do not see the attribute on an
// alias. For one that does not matter, std::ignore = call().
namespace tl {
template <class T, class E>
class [[nodiscard]] expected;  // NOLINT(readability-identifier-naming): the library's name
}  // namespace tl

#include <tl/expected.hpp>
#include <utility>

namespace heddle {

enum class Code {
  kInvalidArgument,   // the input cannot be meant; `field` names where
  kNotFound,          // the thing asked for does not exist
  kAlreadyExists,     // it exists, and the caller wanted to make it
  kConflict,          // somebody else changed it first: read again
  kGone,              // the version asked for is no longer served (HTTP 410): list again
  kPermissionDenied,  // refused by policy or rights; trying again does not help
  kUnavailable,       // the other side cannot answer now: try again later
  kDeadlineExceeded,  // no answer in time; whether it took effect is unknown
  kExhausted,         // a limit was reached (steps, memory, quota)
  kUnsupported,       // understood, but this version or device cannot do it
  kInternal,          // a broken invariant of ours
};

std::string_view code_name(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;  // one line, for a person, with the fix where there is one
  std::string field;    // path of the input field, such as spec.containers[0].resources.limits; may be empty

  // "field: message", or the message alone.
  [[nodiscard]] std::string text() const;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, std::string message, std::string field = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(field)});
}

// fail() with errno's text behind the message.
tl::unexpected<Error> fail_errno(std::string_view what, int error_number);

}  // namespace heddle

#define HEDDLE_CONCAT_INNER(a, b) a##b
#define HEDDLE_CONCAT(a, b) HEDDLE_CONCAT_INNER(a, b)

// HEDDLE_TRY(auto x, parse(text)); returns the error to the caller, or goes on with the value in x.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define HEDDLE_TRY(declaration, expression)                                                   \
  auto HEDDLE_CONCAT(try_, __LINE__) = (expression);                                          \
  if (!HEDDLE_CONCAT(try_, __LINE__))                                                         \
    return tl::unexpected<::heddle::Error>(std::move(HEDDLE_CONCAT(try_, __LINE__)).error()); \
  declaration = std::move(*HEDDLE_CONCAT(try_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)

// HEDDLE_CHECK_OK(write(file)); for Result<void>: returns the error to the caller.
#define HEDDLE_CHECK_OK(expression)                                                                           \
  do {                                                                                                        \
    auto heddle_check_result = (expression);                                                                  \
    if (!heddle_check_result) return tl::unexpected<::heddle::Error>(std::move(heddle_check_result).error()); \
  } while (false)
