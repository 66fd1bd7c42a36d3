// IP, CIDR, URL and named formats (k8s.io/apiserver v0.37.2 pkg/cel/library/ip.go, cidr.go, urls.go, format.go).
#include <arpa/inet.h>
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "cel/functions.h"

namespace heddle::cel {

namespace {

using Args = std::span<const Value>;

// Without zones and without IPv4-mapped IPv6, as upstream.
std::optional<Ip> parse_ip(std::string_view text) {
  Ip ip;
  std::string copy(text);
  if (copy.size() != std::strlen(copy.c_str())) return std::nullopt;
  if (inet_pton(AF_INET, copy.c_str(), ip.bytes) == 1) return ip;
  ip.v6 = true;
  if (inet_pton(AF_INET6, copy.c_str(), ip.bytes) != 1) return std::nullopt;
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(ip.bytes, kMapped, sizeof kMapped) == 0) return std::nullopt;
  return ip;
}

int64_t bits(const Ip& ip) {
  return ip.v6 ? 128 : 32;
}

std::optional<Cidr> parse_cidr(std::string_view text) {
  size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  auto ip = parse_ip(text.substr(0, slash));
  std::string_view digits = text.substr(slash + 1);
  if (!ip || digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  Cidr cidr{*ip, 0};
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), cidr.prefix);
  if (error != std::errc() || end != digits.data() + digits.size() || digits[0] == '-' || cidr.prefix > bits(*ip))
    return std::nullopt;
  return cidr;
}

Ip masked_ip(Ip ip, int64_t prefix) {
  for (int64_t bit = prefix; bit < bits(ip); ++bit) ip.bytes[bit / 8] &= static_cast<uint8_t>(~(0x80U >> (bit % 8)));
  return ip;
}

bool inside(const Cidr& cidr, const Ip& ip) {
  if (cidr.address.v6 != ip.v6) return false;
  Ip a = masked_ip(cidr.address, cidr.prefix);
  Ip b = masked_ip(ip, cidr.prefix);
  return std::memcmp(a.bytes, b.bytes, ip.v6 ? 16 : 4) == 0;
}

Value make_ip(Evaluation& e, const Ip& ip) {
  const Ip* kept = e.arena().make<Ip>(ip);
  return kept == nullptr ? Value::error("out of memory") : Value::ip(kept);
}
Value make_cidr(Evaluation& e, const Cidr& cidr) {
  const Cidr* kept = e.arena().make<Cidr>(cidr);
  return kept == nullptr ? Value::error("out of memory") : Value::cidr(kept);
}

Value bad_ip(Evaluation& e, std::string_view text) {
  return e.error(fmt::format("IP Address '{}' parse error during conversion from string", text));
}
Value bad_cidr(Evaluation& e, std::string_view text) {
  return e.error(fmt::format("network address parse error during conversion from string: '{}'", text));
}

Value ip(Evaluation& e, Args args) {
  if (args[0].is(Kind::kCidr)) return make_ip(e, args[0].as_cidr().address);
  if (!args[0].is(Kind::kString)) return e.no_overload();
  auto parsed = parse_ip(args[0].as_text());
  return parsed ? make_ip(e, *parsed) : bad_ip(e, args[0].as_text());
}
Value is_ip(Evaluation& e, Args args) {
  return args[0].is(Kind::kString) ? Value::boolean(parse_ip(args[0].as_text()).has_value()) : e.no_overload();
}
Value ip_is_canonical(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  auto parsed = parse_ip(args[0].as_text());
  return parsed ? Value::boolean(ip_text(*parsed) == args[0].as_text()) : bad_ip(e, args[0].as_text());
}

Value family(Evaluation& e, Args args) {
  return args[0].is(Kind::kIp) ? Value::integer(args[0].as_ip().v6 ? 6 : 4) : e.no_overload();
}

bool all_zero(const Ip& ip) {
  return std::all_of(ip.bytes, ip.bytes + (ip.v6 ? 16 : 4), [](uint8_t b) { return b == 0; });
}
bool loopback(const Ip& ip) {
  if (!ip.v6) return ip.bytes[0] == 127;
  return std::all_of(ip.bytes, ip.bytes + 15, [](uint8_t b) { return b == 0; }) && ip.bytes[15] == 1;
}
bool multicast(const Ip& ip) {
  return ip.v6 ? ip.bytes[0] == 0xff : (ip.bytes[0] & 0xf0) == 0xe0;
}
bool link_local_multicast(const Ip& ip) {
  return ip.v6 ? ip.bytes[0] == 0xff && (ip.bytes[1] & 0x0f) == 0x02
               : ip.bytes[0] == 224 && ip.bytes[1] == 0 && ip.bytes[2] == 0;
}
bool link_local_unicast(const Ip& ip) {
  return ip.v6 ? ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80 : ip.bytes[0] == 169 && ip.bytes[1] == 254;
}
bool broadcast(const Ip& ip) {
  return !ip.v6 && std::all_of(ip.bytes, ip.bytes + 4, [](uint8_t b) { return b == 255; });
}
bool global_unicast(const Ip& ip) {
  return !all_zero(ip) && !loopback(ip) && !multicast(ip) && !link_local_unicast(ip) && !broadcast(ip);
}

template <bool (*kTest)(const Ip&)>
Value ip_test(Evaluation& e, Args args) {
  return args[0].is(Kind::kIp) ? Value::boolean(kTest(args[0].as_ip())) : e.no_overload();
}

Value cidr(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  auto parsed = parse_cidr(args[0].as_text());
  return parsed ? make_cidr(e, *parsed) : bad_cidr(e, args[0].as_text());
}
Value is_cidr(Evaluation& e, Args args) {
  return args[0].is(Kind::kString) ? Value::boolean(parse_cidr(args[0].as_text()).has_value()) : e.no_overload();
}
Value contains_ip(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kCidr)) return e.no_overload();
  if (args[1].is(Kind::kIp)) return Value::boolean(inside(args[0].as_cidr(), args[1].as_ip()));
  if (!args[1].is(Kind::kString)) return e.no_overload();
  auto parsed = parse_ip(args[1].as_text());
  return parsed ? Value::boolean(inside(args[0].as_cidr(), *parsed)) : bad_ip(e, args[1].as_text());
}
Value contains_cidr(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kCidr)) return e.no_overload();
  std::optional<Cidr> other;
  if (args[1].is(Kind::kCidr)) other = args[1].as_cidr();
  if (args[1].is(Kind::kString)) {
    other = parse_cidr(args[1].as_text());
    if (!other) return bad_cidr(e, args[1].as_text());
  }
  if (!other) return e.no_overload();
  const Cidr& outer = args[0].as_cidr();
  return Value::boolean(outer.prefix <= other->prefix && inside(outer, other->address));
}
Value prefix_length(Evaluation& e, Args args) {
  return args[0].is(Kind::kCidr) ? Value::integer(args[0].as_cidr().prefix) : e.no_overload();
}
Value masked(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kCidr)) return e.no_overload();
  const Cidr& cidr = args[0].as_cidr();
  return make_cidr(e, {masked_ip(cidr.address, cidr.prefix), cidr.prefix});
}

// Named formats: a pattern and a longest length; prefixes (of names to be generated) may end in a dash.
struct NamedFormat {
  std::string_view name;
  const char* pattern;
  size_t max_bytes;
};
constexpr std::array<NamedFormat, 13> kFormats = {{
    {"dns1123Label", "[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63},
    {"dns1123Subdomain", "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", 253},
    {"dns1035Label", "[a-z]([-a-z0-9]*[a-z0-9])?", 63},
    {"qualifiedName",
     "([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
     ")?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]",
     317},
    {"dns1123LabelPrefix", "[a-z0-9][-a-z0-9]*", 63},
    {"dns1123SubdomainPrefix", "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*-?", 253},
    {"dns1035LabelPrefix", "[a-z][-a-z0-9]*", 63},
    {"labelValue", "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", 63},
    {"uri", "([a-zA-Z][a-zA-Z0-9+.-]*:[^\\x00-\\x20]*|/[^\\x00-\\x20]*)", SIZE_MAX},
    {"uuid", "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", SIZE_MAX},
    {"byte", "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", SIZE_MAX},
    {"date", "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", SIZE_MAX},
    {"datetime", "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?([Zz]|[+-][0-9]{2}:?[0-9]{2})",
     SIZE_MAX},
}};

const NamedFormat* find_format(std::string_view name) {
  for (const NamedFormat& format : kFormats)
    if (format.name == name) return &format;
  return nullptr;
}

Value validate(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kFormat) || !args[1].is(Kind::kString)) return e.no_overload();
  const NamedFormat* format = find_format(args[0].as_text());
  std::string_view text = args[1].as_text();
  std::vector<Value> problems;
  if (text.size() > format->max_bytes)
    problems.push_back(e.text(fmt::format("must be no more than {} bytes", format->max_bytes)));
  if (!RE2::FullMatch(re2::StringPiece(text.data(), text.size()), format->pattern))
    problems.push_back(e.text(fmt::format("does not match the format {}", format->name)));
  return problems.empty() ? e.none() : e.optional(e.list(problems));
}

Value format_named(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  const NamedFormat* format = find_format(args[0].as_text());
  return format == nullptr ? e.none() : e.optional(Value::format(format->name));
}

template <size_t kIndex>
Value named(Evaluation&, Args) {
  return Value::format(kFormats[kIndex].name);
}

// Scheme, host and path of an absolute URL or an absolute path (Go's url.ParseRequestURI).
std::optional<Url> parse_url(std::string_view text) {
  Url url;
  url.text = text;
  if (text.empty() ||
      std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; }))
    return std::nullopt;
  std::string_view rest = text;
  if (rest[0] != '/') {
    size_t colon = rest.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    url.scheme = rest.substr(0, colon);
    auto scheme_char = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
    };
    if (std::isalpha(static_cast<unsigned char>(rest[0])) == 0 ||
        !std::all_of(url.scheme.begin(), url.scheme.end(), scheme_char))
      return std::nullopt;
    rest.remove_prefix(colon + 1);
    if (rest.substr(0, 1) != "/") return std::nullopt;
  }
  if (size_t question = rest.find('?'); question != std::string_view::npos) {
    url.query = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  if (!url.scheme.empty() && rest.substr(0, 2) == "//") {
    rest.remove_prefix(2);
    size_t slash = std::min(rest.find('/'), rest.size());
    url.host = rest.substr(0, slash);
    if (size_t at = url.host.rfind('@'); at != std::string_view::npos) url.host.remove_prefix(at + 1);
    rest.remove_prefix(slash);
    size_t bracket = url.host.rfind(']');
    size_t colon = url.host.find(':', bracket == std::string_view::npos ? 0 : bracket);
    url.hostname = url.host.substr(0, colon);
    if (colon != std::string_view::npos) url.port = url.host.substr(colon + 1);
    if (!std::all_of(url.port.begin(), url.port.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return std::nullopt;
    if (url.hostname.size() >= 2 && url.hostname.front() == '[')
      url.hostname = url.hostname.substr(1, url.hostname.size() - 2);
  }
  url.path = rest;
  return url;
}

Value url(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  auto parsed = parse_url(args[0].as_text());
  if (!parsed)
    return e.error(fmt::format("URL parse error during conversion from string: parse \"{}\": invalid URI for request",
                               args[0].as_text()));
  const Url* kept = e.arena().make<Url>(*parsed);
  return kept == nullptr ? Value::error("out of memory") : Value::url(kept);
}
Value is_url(Evaluation& e, Args args) {
  return args[0].is(Kind::kString) ? Value::boolean(parse_url(args[0].as_text()).has_value()) : e.no_overload();
}

template <std::string_view Url::* kPart>
Value url_part(Evaluation& e, Args args) {
  return args[0].is(Kind::kUrl) ? Value::string(args[0].as_url().*kPart) : e.no_overload();
}

Value unescape_query(Evaluation& e, std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return e.text(out);
}

Value get_query(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kUrl)) return e.no_overload();
  auto* map = e.arena().make<ArrayMap>();
  if (map == nullptr) return Value::error("out of memory");
  std::vector<std::pair<Value, std::vector<Value>>> entries;
  std::string_view rest = args[0].as_url().query;
  while (!rest.empty()) {
    size_t end = std::min(rest.find('&'), rest.size());
    std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    size_t equals = std::min(pair.find('='), pair.size());
    Value key = unescape_query(e, pair.substr(0, equals));
    Value value = unescape_query(e, pair.substr(std::min(equals + 1, pair.size())));
    auto it = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return equal(entry.first, key); });
    if (it == entries.end()) it = entries.insert(entries.end(), {key, {}});
    it->second.push_back(value);
  }
  for (const auto& [key, values] : entries)
    if (!map->append(key, e.list(values), e.arena())) return Value::error("out of memory");
  return Value::map(map);
}

constexpr std::array<FunctionEntry, 38> kFunctions = {{
    {"ip", ip, CostRule::kTraverseFirst},
    {"isIP", is_ip, CostRule::kTraverseFirst},
    {"ip.isCanonical", ip_is_canonical, CostRule::kTraverseFirstTwice},
    {"family", family, CostRule::kOne},
    {"isUnspecified", ip_test<all_zero>, CostRule::kOne},
    {"isLoopback", ip_test<loopback>, CostRule::kOne},
    {"isLinkLocalMulticast", ip_test<link_local_multicast>, CostRule::kOne},
    {"isLinkLocalUnicast", ip_test<link_local_unicast>, CostRule::kOne},
    {"isGlobalUnicast", ip_test<global_unicast>, CostRule::kOne},
    {"cidr", cidr, CostRule::kTraverseFirst},
    {"isCIDR", is_cidr, CostRule::kTraverseFirst},
    {"containsIP", contains_ip, CostRule::kNetwork},
    {"containsCIDR", contains_cidr, CostRule::kNetwork},
    {"prefixLength", prefix_length, CostRule::kOne},
    {"masked", masked, CostRule::kOne},
    {"validate", validate, CostRule::kFormat},
    {"format.named", format_named, CostRule::kOne},
    {"format.dns1123Label", named<0>, CostRule::kOne},
    {"format.dns1123Subdomain", named<1>, CostRule::kOne},
    {"format.dns1035Label", named<2>, CostRule::kOne},
    {"format.qualifiedName", named<3>, CostRule::kOne},
    {"format.dns1123LabelPrefix", named<4>, CostRule::kOne},
    {"format.dns1123SubdomainPrefix", named<5>, CostRule::kOne},
    {"format.dns1035LabelPrefix", named<6>, CostRule::kOne},
    {"format.labelValue", named<7>, CostRule::kOne},
    {"format.uri", named<8>, CostRule::kOne},
    {"format.uuid", named<9>, CostRule::kOne},
    {"format.byte", named<10>, CostRule::kOne},
    {"format.date", named<11>, CostRule::kOne},
    {"format.datetime", named<12>, CostRule::kOne},
    {"url", url, CostRule::kTraverseFirst},
    {"isURL", is_url, CostRule::kTraverseFirst},
    {"getScheme", url_part<&Url::scheme>, CostRule::kOne},
    {"getHost", url_part<&Url::host>, CostRule::kOne},
    {"getHostname", url_part<&Url::hostname>, CostRule::kOne},
    {"getPort", url_part<&Url::port>, CostRule::kOne},
    {"getEscapedPath", url_part<&Url::path>, CostRule::kOne},
    {"getQuery", get_query, CostRule::kOne},
}};

}  // namespace

std::string ip_text(const Ip& ip) {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(ip.v6 ? AF_INET6 : AF_INET, ip.bytes, buffer, sizeof buffer);
  return buffer;
}

std::span<const FunctionEntry> network_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
