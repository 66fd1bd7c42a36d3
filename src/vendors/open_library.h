// A vendor's library in a worker: found, opened and started when it is needed, and again when it was lost.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors {

template <typename Library>
struct OpenLibrary {
  LibraryState state = LibraryState::kMissing;
  std::string detail;                // why the state is not kOk
  std::string path;                  // where it was found; empty: nowhere
  std::unique_ptr<Library> library;  // not null where the state is kOk

  // Where the state is not kOk. find(): the path, or empty; missing: what is told then. start(Library&): why the driver
  // behind it does not answer; empty: it does.
  template <typename Find, typename Start>
  void open(Find find, std::string_view missing, Start start) {
    if (library == nullptr) {
      path = find();
      if (path.empty()) return set(LibraryState::kMissing, std::string(missing));
      Result<std::unique_ptr<Library>> opened = Library::open(path);
      if (!opened) {
        const bool gone = opened.error().code == Code::kNotFound;
        return set(gone ? LibraryState::kMissing : LibraryState::kIncomplete, opened.error().text());
      }
      library = *std::move(opened);
    }
    if (std::string why = start(*library); !why.empty()) {
      library.reset();  // a new driver brings a new library
      return set(LibraryState::kInitFailed, std::move(why));
    }
    set(LibraryState::kOk, {});
  }

 private:
  void set(LibraryState now, std::string why) {
    state = now;
    detail = std::move(why);
  }
};

}  // namespace heddle::vendors
