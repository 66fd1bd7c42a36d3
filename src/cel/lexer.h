// Tokens of CEL (github.com/google/cel-go v0.29.2 parser/gen/CEL.g4).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::cel {

enum class TokenKind : uint8_t {
  kEnd,
  kIdentifier,
  kEscapedIdentifier,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kOperator
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // operators: "&&", "[", ...; literals: as written
  uint32_t offset = 0;
};

// All tokens with an kEnd at the end. Errors: kInvalidArgument with the place.
Result<std::vector<Token>> tokenize(std::string_view expression);

}  // namespace heddle::cel
