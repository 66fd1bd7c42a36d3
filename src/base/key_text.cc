#include "base/key_text.h"

namespace heddle {

void append_part(std::string& key, std::string_view part) {
  key += std::to_string(part.size());
  key.push_back(':');
  key += part;
}

void append_part(std::string& key, int64_t part) {
  key += std::to_string(part);
  key.push_back(';');
}

}  // namespace heddle
