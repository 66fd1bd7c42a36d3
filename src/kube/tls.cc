#include "kube/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace heddle::kube {
namespace {

struct BioCloser {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct CertificateCloser {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyCloser {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct ContextCloser {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct SslCloser {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Bio = std::unique_ptr<BIO, BioCloser>;
using Certificate = std::unique_ptr<X509, CertificateCloser>;

tl::unexpected<Error> bad(const char* what, const char* field) {
  const unsigned long code = ERR_peek_last_error();
  std::string text = what;
  if (code != 0) text += std::string(": ") + ERR_reason_error_string(code);
  ERR_clear_error();
  return fail(Code::kInvalidArgument, std::move(text), field);
}

Bio memory_bio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(std::min<size_t>(text.size(), INT_MAX))));
}

// No password is ever asked for on a terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*context*/) {
  return 0;
}

class OpensslContext final : public TlsContext {
 public:
  explicit OpensslContext(std::unique_ptr<SSL_CTX, ContextCloser> context) : context_(std::move(context)) {}
  [[nodiscard]] SSL_CTX* get() const { return context_.get(); }

 private:
  std::unique_ptr<SSL_CTX, ContextCloser> context_;
};

Result<void> use_certificates(SSL_CTX* context, const std::string& pem) {
  const Bio bio = memory_bio(pem);
  const Certificate leaf(PEM_read_bio_X509(bio.get(), nullptr, &no_password, nullptr));
  if (!leaf) return bad("is not a PEM certificate", "certificate_pem");
  if (SSL_CTX_use_certificate(context, leaf.get()) != 1) return bad("cannot be used", "certificate_pem");
  while (true) {
    const Certificate next(PEM_read_bio_X509(bio.get(), nullptr, &no_password, nullptr));
    if (!next) break;
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return bad("has a bad chain", "certificate_pem");
  }
  ERR_clear_error();
  return {};
}

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(UniqueFd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] int fd() const override { return fd_.get(); }

  Moved read(char* buffer, size_t size) override {
    const ssize_t got = ::recv(fd_.get(), buffer, size, 0);
    if (got > 0) return {StreamState::kOk, static_cast<size_t>(got)};
    return {got < 0 && again() ? StreamState::kWantRead : StreamState::kEnd, 0};
  }

  Moved write(const char* bytes, size_t size) override {
    const ssize_t put = ::send(fd_.get(), bytes, size, MSG_NOSIGNAL);
    if (put >= 0) return {StreamState::kOk, static_cast<size_t>(put)};
    return {again() ? StreamState::kWantWrite : StreamState::kEnd, 0};
  }

  void finish() override { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  static bool again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
  UniqueFd fd_;
};

class TlsStream final : public ByteStream {
 public:
  TlsStream(UniqueFd fd, std::shared_ptr<const TlsContext> context, SSL* ssl)
      : fd_(std::move(fd)), context_(std::move(context)), ssl_(ssl) {}
  [[nodiscard]] int fd() const override { return fd_.get(); }

  // The handshake happens inside the first reads.
  Moved read(char* buffer, size_t size) override {
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), buffer, size, &got);
    if (result == 1) return {StreamState::kOk, got};
    return {state_of(result), 0};
  }

  Moved write(const char* bytes, size_t size) override {
    ERR_clear_error();
    size_t put = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes, size, &put);
    if (result == 1) return {StreamState::kOk, put};
    return {state_of(result), 0};
  }

  void finish() override {
    ERR_clear_error();
    if (!broken_) SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ::shutdown(fd_.get(), SHUT_WR);
  }

 private:
  StreamState state_of(int result) {
    const int error = SSL_get_error(ssl_.get(), result);
    if (error == SSL_ERROR_WANT_READ) return StreamState::kWantRead;
    if (error == SSL_ERROR_WANT_WRITE) return StreamState::kWantWrite;
    broken_ = error != SSL_ERROR_ZERO_RETURN;  // no shutdown may follow a fatal error
    ERR_clear_error();
    return StreamState::kEnd;
  }

  UniqueFd fd_;
  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<SSL, SslCloser> ssl_;
  bool broken_ = false;
};

// OpenSSL writes with write(2); a peer that is gone must not kill the process with SIGPIPE. So the socket's BIO sends
// with MSG_NOSIGNAL.
int quiet_write(BIO* bio, const char* bytes, size_t size, size_t* written) {
  const ssize_t put = ::send(static_cast<int>(BIO_get_fd(bio, nullptr)), bytes, size, MSG_NOSIGNAL);
  BIO_clear_retry_flags(bio);
  *written = put > 0 ? static_cast<size_t>(put) : 0;
  if (put > 0) return 1;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) BIO_set_retry_write(bio);
  return 0;
}

BIO_METHOD* make_quiet_socket_method() {
  const BIO_METHOD* base = BIO_s_socket();
  BIO_METHOD* method = BIO_meth_new(BIO_TYPE_SOCKET, "quiet socket");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write_ex(method, &quiet_write);
  BIO_meth_set_read(method, BIO_meth_get_read(base));
  BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(base));
  BIO_meth_set_create(method, BIO_meth_get_create(base));
  BIO_meth_set_destroy(method, BIO_meth_get_destroy(base));
  return method;
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::create(const std::string& certificate_pem,
                                                             const std::string& key_pem) {
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, ContextCloser> context(SSL_CTX_new(TLS_server_method()));
  if (!context) return fail(Code::kInternal, "OpenSSL has no server method");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  HEDDLE_CHECK_OK(use_certificates(context.get(), certificate_pem));
  const Bio bio = memory_bio(key_pem);
  const std::unique_ptr<EVP_PKEY, KeyCloser> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_password, nullptr));
  if (!key) return bad("is not a PEM private key", "key_pem");
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 || SSL_CTX_check_private_key(context.get()) != 1) {
    return bad("does not belong to the certificate", "key_pem");
  }
  return std::make_shared<const OpensslContext>(std::move(context));
}

std::unique_ptr<ByteStream> ByteStream::create(UniqueFd fd, std::shared_ptr<const TlsContext> context) {
  if (!context) return std::make_unique<PlainStream>(std::move(fd));
  // Never freed: OpenSSL's method tables live as long as the program.
  static BIO_METHOD* const method = make_quiet_socket_method();
  SSL* ssl = SSL_new(static_cast<const OpensslContext&>(*context).get());
  BIO* bio = method == nullptr ? nullptr : BIO_new(method);
  if (ssl == nullptr || bio == nullptr) {
    SSL_free(ssl);
    BIO_free(bio);
    return nullptr;
  }
  BIO_set_fd(bio, fd.get(), BIO_NOCLOSE);
  SSL_set_bio(ssl, bio, bio);
  SSL_set_accept_state(ssl);
  return std::make_unique<TlsStream>(std::move(fd), std::move(context), ssl);
}

}  // namespace heddle::kube
