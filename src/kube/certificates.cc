#include "kube/certificates.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>
#include <ctime>
#include <memory>
#include <utility>

#include "base/random.h"

namespace heddle::kube {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

template <auto Free>
struct Closer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Closer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Closer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Closer<EVP_PKEY_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Closer<X509_EXTENSION_free>>;
using Store = std::unique_ptr<X509_STORE, Closer<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Closer<X509_STORE_CTX_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Closer<GENERAL_NAMES_free>>;

tl::unexpected<Error> openssl_failed(const char* what) {
  const unsigned long code = ERR_peek_last_error();
  std::string text = what;
  if (code != 0) text += std::string(": ") + ERR_reason_error_string(code);
  ERR_clear_error();
  return fail(Code::kInternal, std::move(text));
}

int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*context*/) {
  return 0;
}

Bio reader_of(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(std::min<size_t>(text.size(), INT_MAX))));
}

std::vector<Certificate> read_certificates(const std::string& pem) {
  const Bio bio = reader_of(pem);
  std::vector<Certificate> all;
  while (true) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, &no_password, nullptr));
    if (!next) break;
    all.push_back(std::move(next));
  }
  ERR_clear_error();  // the end of the text is an error for OpenSSL
  return all;
}

Key read_key(const std::string& pem) {
  const Bio bio = reader_of(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_password, nullptr));
  ERR_clear_error();
  return key;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

Result<KeyPair> to_pem(X509* certificate, EVP_PKEY* key) {
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  const Bio key_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_failed("cannot write PEM");
  }
  return KeyPair{text_of(certificate_text.get()), text_of(key_text.get())};
}

bool is_ip(const std::string& name) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

bool is_dns_name(const std::string& name) {
  if (name.empty() || name.size() > 253 || name.front() == '.' || name.back() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '*';
  });
}

// Values are of this file or checked names, so none can add to the configuration syntax.
bool add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_time(ASN1_TIME* slot, Time time) {
  return ASN1_TIME_set(slot, static_cast<time_t>(time.unix_nanos / kNanosPerSecond)) != nullptr;
}

bool set_serial(X509* certificate) {
  const auto bytes = random_bytes(16);
  if (!bytes) return false;
  std::string positive = *bytes;
  positive[0] = static_cast<char>((static_cast<unsigned char>(positive[0]) & 0x7f) | 0x40);
  BIGNUM* number =
      BN_bin2bn(reinterpret_cast<const unsigned char*>(positive.data()), static_cast<int>(positive.size()), nullptr);
  const bool fine = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return fine;
}

// Everything that both kinds share, not signed yet.
Certificate begin_certificate(EVP_PKEY* key, const std::string& common_name, Time not_before, Time not_after) {
  Certificate certificate(X509_new());
  if (!certificate) return nullptr;
  constexpr size_t kMaxCommonName = 64;
  const std::string name = common_name.substr(0, kMaxCommonName);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const bool fine =
      X509_set_version(certificate.get(), X509_VERSION_3) == 1 && set_serial(certificate.get()) &&
      set_time(X509_getm_notBefore(certificate.get()), not_before) &&
      set_time(X509_getm_notAfter(certificate.get()), not_after) &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<int>(name.size()), -1, 0) == 1 &&
      X509_set_pubkey(certificate.get(), key) == 1;
  return fine ? std::move(certificate) : nullptr;
}

Result<Time> time_of(const ASN1_TIME* value) {
  std::tm parts = {};
  if (value == nullptr || ASN1_TIME_to_tm(value, &parts) != 1) {
    return fail(Code::kInvalidArgument, "the certificate's validity cannot be read");
  }
  return Time{int64_t{::timegm(&parts)} * kNanosPerSecond};
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names;
  const Names list(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; list && i < sk_GENERAL_NAME_num(list.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list.get(), i);
    const ASN1_STRING* text = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const unsigned char* bytes = ASN1_STRING_get0_data(text);
    const int size = ASN1_STRING_length(text);
    if (name->type == GEN_DNS) {
      names.emplace_back(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> buffer{};
    if (size == 4 || size == 16) {
      inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, buffer.data(), buffer.size());
      names.emplace_back(buffer.data());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Empty while more than a third of the life is left.
std::string ageing(const std::string& what, const CertificateInfo& info, Time now) {
  if (now < info.not_before) return what + " is not valid before " + format_rfc3339(info.not_before);
  const int64_t life = (info.not_after - info.not_before).nanos;
  if ((info.not_after - now).nanos < life / 3) return what + " ends at " + format_rfc3339(info.not_after);
  return {};
}

}  // namespace

Result<KeyPair> make_ca(const std::string& common_name, Time not_before, Time not_after) {
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failed("cannot make a key");
  const Certificate certificate = begin_certificate(key.get(), common_name, not_before, not_after);
  if (!certificate) return openssl_failed("cannot make a certificate");
  X509* raw = certificate.get();
  if (X509_set_issuer_name(raw, X509_get_subject_name(raw)) != 1 ||
      !add_extension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(raw, raw, NID_subject_key_identifier, "hash") || X509_sign(raw, key.get(), EVP_sha256()) == 0) {
    return openssl_failed("cannot make a CA");
  }
  return to_pem(raw, key.get());
}

Result<KeyPair> make_server_certificate(const KeyPair& ca, const std::vector<std::string>& names, Time not_before,
                                        Time not_after) {
  const auto issuers = read_certificates(ca.certificate_pem);
  const Key ca_key = read_key(ca.key_pem);
  if (issuers.empty() || !ca_key || X509_check_private_key(issuers.front().get(), ca_key.get()) != 1 ||
      X509_check_ca(issuers.front().get()) != 1) {
    ERR_clear_error();
    return fail(Code::kInvalidArgument, "is no CA certificate with its key", "ca");
  }
  if (names.empty()) return fail(Code::kInvalidArgument, "at least one name is needed", "names");
  std::string alternatives;
  for (const std::string& name : names) {
    if (!is_ip(name) && !is_dns_name(name)) {
      return fail(Code::kInvalidArgument, "\"" + name + "\" is neither a DNS name nor an IP address", "names");
    }
    alternatives += (alternatives.empty() ? "" : ",") + std::string(is_ip(name) ? "IP:" : "DNS:") + name;
  }
  X509* issuer = issuers.front().get();
  HEDDLE_TRY(const Time ca_end, time_of(X509_get0_notAfter(issuer)));
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failed("cannot make a key");
  const Certificate certificate = begin_certificate(key.get(), names.front(), not_before, std::min(not_after, ca_end));
  if (!certificate) return openssl_failed("cannot make a certificate");
  X509* raw = certificate.get();
  if (X509_set_issuer_name(raw, X509_get_subject_name(issuer)) != 1 ||
      !add_extension(raw, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(raw, issuer, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(raw, issuer, NID_ext_key_usage, "serverAuth") ||
      !add_extension(raw, issuer, NID_authority_key_identifier, "keyid") ||
      !add_extension(raw, issuer, NID_subject_alt_name, alternatives) ||
      X509_sign(raw, ca_key.get(), EVP_sha256()) == 0) {
    return openssl_failed("cannot make a server certificate");
  }
  return to_pem(raw, key.get());
}

Result<CertificateInfo> parse_certificate(const std::string& certificate_pem) {
  const auto all = read_certificates(certificate_pem);
  if (all.empty()) return fail(Code::kInvalidArgument, "is not a PEM certificate", "certificate_pem");
  X509* certificate = all.front().get();
  CertificateInfo info;
  HEDDLE_TRY(info.not_before, time_of(X509_get0_notBefore(certificate)));
  HEDDLE_TRY(info.not_after, time_of(X509_get0_notAfter(certificate)));
  std::array<char, 256> name{};
  if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(),
                                static_cast<int>(name.size())) >= 0) {
    info.subject = name.data();
  }
  info.names = names_of(certificate);
  return info;
}

Result<void> verify_certificate(const std::string& certificate_pem, const std::string& ca_pem, const std::string& name,
                                Time now) {
  const auto chain = read_certificates(certificate_pem);
  if (chain.empty()) return fail(Code::kInvalidArgument, "is not a PEM certificate", "certificate_pem");
  const auto trusted = read_certificates(ca_pem);
  if (trusted.empty()) return fail(Code::kInvalidArgument, "is not a PEM certificate", "ca_pem");
  const Store store(X509_STORE_new());
  for (const Certificate& ca : trusted) X509_STORE_add_cert(store.get(), ca.get());
  const StoreContext context(X509_STORE_CTX_new());
  if (!store || !context || X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), nullptr) != 1) {
    return openssl_failed("cannot check a certificate");
  }
  X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(rules, static_cast<time_t>(now.unix_nanos / kNanosPerSecond));
  X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER);
  const bool named = is_ip(name) ? X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1
                                 : X509_VERIFY_PARAM_set1_host(rules, name.data(), name.size()) == 1;
  if (!named) return fail(Code::kInvalidArgument, "\"" + name + "\" is no host name", "name");
  const bool fine = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (fine) return {};
  return fail(Code::kInvalidArgument, X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())),
              "certificate_pem");
}

std::string needs_rotation(const KeyPair& server, const std::string& ca_pem, const std::vector<std::string>& names,
                           Time now) {
  const auto info = parse_certificate(server.certificate_pem);
  if (!info) return "there is no readable certificate";
  const auto ca = parse_certificate(ca_pem);
  if (!ca) return "there is no readable CA";
  const Key key = read_key(server.key_pem);
  const auto chain = read_certificates(server.certificate_pem);
  const bool fits = key && X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return "the key does not belong to the certificate";
  if (std::string why = ageing("the CA", *ca, now); !why.empty()) return why;
  if (std::string why = ageing("the certificate", *info, now); !why.empty()) return why;
  for (const std::string& name : names) {
    const auto verified = verify_certificate(server.certificate_pem, ca_pem, name, now);
    if (!verified) return name + ": " + verified.error().message;
  }
  return {};
}

}  // namespace heddle::kube
