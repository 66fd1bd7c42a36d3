// Writing compact JSON in one pass. Inside this folder only. Commas are placed by the writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_text.h"

namespace heddle::codec {

class JsonWriter {
 public:
  JsonWriter& key(std::string_view name) {
    separate();
    append_json_string(text_, name);
    text_.push_back(':');
    after_key_ = true;
    return *this;
  }
  void text(std::string_view value) {
    separate();
    append_json_string(text_, value);
  }
  void number(int64_t value) { raw(std::to_string(value)); }
  void flag(bool value) { raw(value ? "true" : "false"); }
  void raw(std::string_view json) {
    separate();
    text_ += json;
  }

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_list() { open('['); }
  void end_list() { close(']'); }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!after_key_ && !first_) text_.push_back(',');
    after_key_ = false;
    first_ = false;
  }
  void open(char bracket) {
    separate();
    text_.push_back(bracket);
    first_ = true;
  }
  void close(char bracket) {
    text_.push_back(bracket);
    first_ = false;
  }

  std::string text_;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace heddle::codec
