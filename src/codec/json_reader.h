// Reading JSON into values with the path of what is wrong. Used by the readers of this folder only.
//
// The first trouble is kept in the Document and reading goes on with empty values, so that a reader is a plain list of
// fields; the caller asks trouble() once at the end.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/quantity.h"
#include "base/result.h"

namespace heddle::codec {

class Document;

// One place in the document; absent when the field is not there or null.
class JsonValue {
 public:
  [[nodiscard]] bool present() const { return element_.has_value(); }
  // A field of an object.
  JsonValue operator[](std::string_view key) const;

  // Absent gives the empty value. A value of another type is a trouble.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] std::optional<int64_t> integer() const;
  [[nodiscard]] std::optional<Quantity> quantity() const;
  [[nodiscard]] std::optional<Time> time() const;
  [[nodiscard]] std::vector<std::string> texts() const;
  [[nodiscard]] std::map<std::string, std::string> text_map() const;
  [[nodiscard]] std::map<std::string, Quantity> quantity_map() const;
  // The value as compact JSON text.
  [[nodiscard]] std::string raw() const;

  void each(const std::function<void(const JsonValue&)>& item) const;
  void each_member(const std::function<void(std::string_view, const JsonValue&)>& member) const;

  // Reports what is wrong with this value.
  void wrong(std::string_view what) const;

 private:
  friend class Document;
  JsonValue(Document& document, std::optional<simdjson::dom::element> element, size_t place)
      : document_(&document), element_(element), place_(place) {}

  Document* document_;
  std::optional<simdjson::dom::element> element_;
  size_t place_;  // index in Document::places_
};

// Owns the parsed text. Not thread-safe; values must not outlive it.
class Document {
 public:
  // Errors: kInvalidArgument when the text is not one JSON object.
  static Result<std::unique_ptr<Document>> parse(std::string_view json);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  [[nodiscard]] JsonValue root();
  [[nodiscard]] const std::optional<Error>& trouble() const { return trouble_; }

 private:
  friend class JsonValue;
  struct Place {
    size_t parent = 0;
    std::string_view key;
    int64_t index = -1;    // of an array item, or -1
    bool bracket = false;  // a key of a map, written in brackets
  };
  Document() = default;
  [[nodiscard]] std::string path_of(size_t place) const;
  size_t add_place(Place place);
  void report(size_t place, std::string_view what);

  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
  std::vector<Place> places_{Place{}};
  std::optional<Error> trouble_;
};

// Parses and reads: the value that `read` returns, or the first trouble.
template <typename Read>
auto read_document(std::string_view json, Read read) -> Result<decltype(read(std::declval<JsonValue>()))> {
  HEDDLE_TRY(const auto document, Document::parse(json));
  auto value = read(document->root());
  if (document->trouble()) return tl::unexpected<Error>(*document->trouble());
  return value;
}

}  // namespace heddle::codec
