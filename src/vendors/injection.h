// What a container needs to use the cards of a vendor: device nodes, the driver's files, environment. From the file
// system alone: no vendor library is called.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors {

struct InjectionOptions {
  std::string driver_root = "/";                          // as this process sees it
  std::string driver_root_on_host;                        // as the container runtime sees it; empty: the same
  std::string library_dir = "/usr/lib/x86_64-linux-gnu";  // in the container; on the default path of its loader
  std::string binary_dir = "/usr/bin";
};

// For all containers that get any card of the vendor. Errors: kNotFound when the driver's files are missing,
// kUnsupported for a vendor that is not built in.
Result<Injection> common_injection(std::string_view vendor, const InjectionOptions& options);

// The node of one card. Errors: kNotFound when it does not exist.
Result<Injection> card_injection(std::string_view vendor, const InjectionOptions& options, const Card& card);

// The variables by which the vendor's software finds out which cards are meant: those of a claim. `everywhere`: each of
// its containers gets every one of them.
using Environment = std::vector<std::pair<std::string, std::string>>;
enum class Spread { kEverywhere, kByRequest };
Environment visible_cards(std::string_view vendor, const std::vector<Card>& cards, Spread spread);

// A path as the container runtime sees it.
std::string host_path(const InjectionOptions& options, const std::string& path);
// The other way: a path of the node as this process sees it, where the driver's root is the node's.
std::string seen_path(const InjectionOptions& options, const std::string& path);

// Adds the device `host` under the name `inside`, or as a writable mount when a simulated driver keeps its state there.
// Errors: kNotFound.
Result<void> add_node(const InjectionOptions& options, const std::string& host, const std::string& inside,
                      Injection& injection);

}  // namespace heddle::vendors
