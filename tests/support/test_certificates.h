// SPDX-License-Identifier: Apache-2.0
//
// Makes certificates for one test run, so that no private key is ever committed.
#pragma once

#include <memory>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string>

#include "server/base/check.h"

namespace duetime::test {

// A certificate and its key, both PEM.
struct CertificatePem {
  std::string certificate;
  std::string key;
};

// A certificate authority that signs any request. Thread-compatible.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name)
      : key_(NewKey()), certificate_(X509_new(), X509_free) {
    Fill(certificate_.get(), name, key_.get());
    AddExtension(NID_basic_constraints, "critical,CA:TRUE");
    DT_CHECK(X509_sign(certificate_.get(), key_.get(), EVP_sha256()) > 0);
  }

  // The authority's own certificate.
  std::string pem() const { return ToPem(certificate_.get()); }

  // A certificate for "localhost" and 127.0.0.1, valid for servers and clients until
  // `seconds` from now.
  CertificatePem Issue(int seconds = 24 * 3'600) const {
    const KeyPtr key = NewKey();
    const X509Ptr certificate(X509_new(), X509_free);
    Fill(certificate.get(), "localhost", key.get());
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    DT_CHECK(names != nullptr && X509_add_ext(certificate.get(), names, -1) == 1);
    X509_EXTENSION_free(names);
    DT_CHECK(X509_sign(certificate.get(), key_.get(), EVP_sha256()) > 0);
    return {.certificate = ToPem(certificate.get()), .key = ToPem(key.get())};
  }

 private:
  using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
  using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;

  static KeyPtr NewKey() {
    return KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), EVP_PKEY_free);
  }

  // Self-issued. Valid from an hour ago, for a day.
  static void Fill(X509* certificate, const std::string& name, EVP_PKEY* key) {
    DT_CHECK(certificate != nullptr && key != nullptr);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3'600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3'600);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    const std::string copy = name;
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(copy.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
  }

  void AddExtension(int nid, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    DT_CHECK(extension != nullptr && X509_add_ext(certificate_.get(), extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }

  static std::string Content(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<size_t>(size)};
  }

  static std::string ToPem(X509* certificate) {
    const BioPtr bio(BIO_new(BIO_s_mem()), BIO_free);
    DT_CHECK(PEM_write_bio_X509(bio.get(), certificate) == 1);
    return Content(bio.get());
  }

  static std::string ToPem(EVP_PKEY* key) {
    const BioPtr bio(BIO_new(BIO_s_mem()), BIO_free);
    DT_CHECK(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return Content(bio.get());
  }

  KeyPtr key_;
  X509Ptr certificate_;
};

}  // namespace duetime::test
