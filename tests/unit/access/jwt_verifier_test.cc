// SPDX-License-Identifier: Apache-2.0
#include "server/access/jwt_verifier.h"

#include <cstdlib>
#include <jwt.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::access {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMs = 1'800'000'000'000;
constexpr int64_t kNowSeconds = 1'800'000'000;

struct KeyPair {
  std::string secret;
  std::string open;
};

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

KeyPair PairOf(EVP_PKEY* key) {
  BIO* const secret = BIO_new(BIO_s_mem());
  BIO* const open = BIO_new(BIO_s_mem());
  EXPECT_EQ(PEM_write_bio_PrivateKey(secret, key, nullptr, nullptr, 0, nullptr, nullptr), 1);
  EXPECT_EQ(PEM_write_bio_PUBKEY(open, key), 1);
  EVP_PKEY_free(key);
  return {TextOf(secret), TextOf(open)};
}

const KeyPair& Rsa() {
  static const KeyPair pair = PairOf(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{2048}));
  return pair;
}
const KeyPair& Ec() {
  static const KeyPair pair = PairOf(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  return pair;
}

struct Claims {
  std::string issuer = "https://issuer";
  std::string audience = "\"duetime\"";
  int64_t expires = kNowSeconds + 60;
  int64_t not_before = kNowSeconds - 60;
  std::string subject = "svc";
};

std::string Sign(const Claims& claims, jwt_alg_t algorithm, const std::string& key,
                 const std::string& key_id = "") {
  jwt_t* jwt = nullptr;
  EXPECT_EQ(jwt_new(&jwt), 0);
  jwt_add_grants_json(
      jwt, absl::StrCat("{\"iss\":\"", claims.issuer, "\",\"aud\":", claims.audience,
                        ",\"nbf\":", claims.not_before, ",\"sub\":\"", claims.subject,
                        "\",\"groups\":[\"ops\",3]",
                        claims.expires == 0 ? "" : absl::StrCat(",\"exp\":", claims.expires), "}")
               .c_str());
  if (!key_id.empty()) jwt_add_header(jwt, "kid", key_id.c_str());
  EXPECT_EQ(jwt_set_alg(jwt, algorithm, reinterpret_cast<const unsigned char*>(key.data()),
                        static_cast<int>(key.size())),
            0);
  char* const encoded = jwt_encode_str(jwt);
  EXPECT_NE(encoded, nullptr);
  std::string text = encoded;
  std::free(encoded);
  jwt_free(jwt);
  return text;
}

JwtVerifier Verifier(JwtVerifier::Keys keys) {
  return JwtVerifier({.keys = "k", .issuer = "https://issuer", .audience = "duetime"},
                     std::move(keys));
}

TEST(JwtVerifierTest, AcceptsBothAlgorithms) {
  const JwtVerifier verifier = Verifier({{"rsa", Rsa().open}, {"ec", Ec().open}});
  const auto rsa = verifier.Verify(Sign({}, JWT_ALG_RS256, Rsa().secret), kMs);
  ASSERT_TRUE(rsa.ok()) << rsa.status();
  EXPECT_EQ(rsa->principal, "jwt:svc");
  EXPECT_THAT(rsa->groups, ElementsAre("jwt:ops"));
  EXPECT_EQ(rsa->expires_ms, kMs + 60'000 + 60'000);
  Claims list;
  list.audience = "[\"other\",\"duetime\"]";
  const auto ec = verifier.Verify(Sign(list, JWT_ALG_ES256, Ec().secret, "ec"), kMs);
  EXPECT_TRUE(ec.ok()) << ec.status();
}

TEST(JwtVerifierTest, RefusesWhatDoesNotFit) {
  const JwtVerifier verifier = Verifier({{"rsa", Rsa().open}, {"ec", Ec().open}});
  const KeyPair stranger = PairOf(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const auto with = [](auto change) {
    Claims claims;
    change(&claims);
    return Sign(claims, JWT_ALG_RS256, Rsa().secret);
  };
  const std::string good = Sign({}, JWT_ALG_RS256, Rsa().secret);
  std::string changed = good;
  changed[good.find('.') + 5] = changed[good.find('.') + 5] == 'A' ? 'B' : 'A';
  const std::string none =
      absl::StrCat(absl::WebSafeBase64Escape("{\"alg\":\"none\"}"),
                   good.substr(good.find('.'), good.rfind('.') + 1 - good.find('.')));
  struct Row {
    std::string token;
    const char* error;
  };
  for (const Row& row : {
           Row{with([](Claims* c) { c->issuer = "x"; }), "another issuer"},
           Row{with([](Claims* c) { c->audience = "\"x\""; }), "another audience"},
           Row{with([](Claims* c) { c->audience = "7"; }), "another audience"},
           Row{with([](Claims* c) { c->expires = kNowSeconds - 60; }), "has expired"},
           Row{with([](Claims* c) { c->expires = 0; }), "no end"},
           Row{with([](Claims* c) { c->not_before = kNowSeconds + 61; }), "not valid yet"},
           Row{with([](Claims* c) { c->subject = ""; }), "no subject"},
           Row{with([](Claims* c) { c->subject = std::string(513, 's'); }), "too long"},
           Row{Sign({}, JWT_ALG_ES256, stranger.secret), "no key that is known"},
           Row{Sign({}, JWT_ALG_ES256, Ec().secret, "rsa"), "no key that is known"},
           Row{Sign({}, JWT_ALG_RS512, Rsa().secret), "neither RS256 nor ES256"},
           // The public key as the secret of HMAC.
           Row{Sign({}, JWT_ALG_HS256, Rsa().open), "neither RS256 nor ES256"},
           Row{none, "neither RS256 nor ES256"},
           Row{changed, ""},
           Row{"a.b", "three parts"},
           Row{"a.b.c", "no JSON"},
           Row{std::string(9'000, 'a'), "too long"},
       }) {
    const auto identity = verifier.Verify(row.token, kMs);
    ASSERT_FALSE(identity.ok()) << row.error;
    EXPECT_TRUE(absl::IsUnauthenticated(identity.status()));
    EXPECT_THAT(std::string(identity.status().message()), HasSubstr(row.error));
  }
}

TEST(JwtVerifierTest, NamesAKeyThatCannotBeRead) {
  const auto missing = JwtVerifier::Load({.keys = "/nowhere/key.pem"});
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nowhere/key.pem"));
}

}  // namespace
}  // namespace duetime::access
