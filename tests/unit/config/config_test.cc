// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/config/knobs.h"
#include "server/config/load.h"
#include "server/config/quantity.h"

namespace duetime::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

Loaded LoadWith(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "duetimed");
  return Load(static_cast<int>(flags.size()), flags.data());
}

// A file that is removed when the test ends.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    const int fd = mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    std::ofstream(path_) << text;
    close(fd);
  }
  ~TempFile() { unlink(path_.c_str()); }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = testing::TempDir() + "duetime_config_XXXXXX";
};

Config ValidConfig() {
  Config config;
  config.store.data_dir = "/var/lib/duetime";
  return config;
}

TEST(QuantityTest, ReadsPlainNumbersInTheNamedUnitAndSuffixes) {
  EXPECT_EQ(ParseQuantity("250", Unit::kMillis).value(), 250u);
  EXPECT_EQ(ParseQuantity("250ms", Unit::kMillis).value(), 250u);
  EXPECT_EQ(ParseQuantity("30s", Unit::kMillis).value(), 30'000u);
  EXPECT_EQ(ParseQuantity("5m", Unit::kMillis).value(), 300'000u);
  EXPECT_EQ(ParseQuantity("2h", Unit::kMillis).value(), 7'200'000u);
  EXPECT_EQ(ParseQuantity("1d", Unit::kMillis).value(), 86'400'000u);
  EXPECT_EQ(ParseQuantity("64MiB", Unit::kBytes).value(), uint64_t{64} << 20);
  EXPECT_EQ(ParseQuantity("512B", Unit::kBytes).value(), 512u);
  EXPECT_EQ(ParseQuantity("7", Unit::kCount).value(), 7u);
}

TEST(QuantityTest, RefusesWhatIsNotAWholeNumberInTheUnit) {
  for (const char* text : {"", "s", "-1", "1.5s", "30 s", "30S", "64MB", "1 000", "0x10", "+1",
                           "99999999999999999999", "18446744073709551615d"}) {
    EXPECT_FALSE(ParseQuantity(text, Unit::kMillis).ok()) << text;
  }
  EXPECT_FALSE(ParseQuantity("64MB", Unit::kBytes).ok());
  EXPECT_FALSE(ParseQuantity("30s", Unit::kBytes).ok());
  EXPECT_FALSE(ParseQuantity("30s", Unit::kCount).ok());
  EXPECT_THAT(ParseQuantity("64MB", Unit::kBytes).status().message(), HasSubstr("KiB"));
}

TEST(QuantityTest, FormatsWithTheLargestSuffixThatFits) {
  EXPECT_EQ(FormatQuantity(0, Unit::kMillis), "0");
  EXPECT_EQ(FormatQuantity(1'500, Unit::kMillis), "1500ms");
  EXPECT_EQ(FormatQuantity(60'000, Unit::kMillis), "1m");
  EXPECT_EQ(FormatQuantity(64 << 20, Unit::kBytes), "64MiB");
  EXPECT_EQ(FormatQuantity(10'000, Unit::kCount), "10000");
}

TEST(KnobsTest, TheTableCoversTheStructAndItsDefaultsAreWithinBounds) {
  std::set<std::string> names;
  for (const Knob& knob : Knobs()) {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name << " twice";
    EXPECT_THAT(knob.description, Not(HasSubstr("  "))) << knob.name;
    const std::string name = knob.name;
    // The unit in the knob's name is the unit in the table.
    EXPECT_EQ(knob.unit == Unit::kMillis, absl::EndsWith(name, "_ms")) << name;
    EXPECT_EQ(knob.unit == Unit::kBytes, absl::StrContains(name, "bytes")) << name;
    if (knob.number() != nullptr) {
      EXPECT_LT(knob.min, knob.max);
    }
  }
  EXPECT_TRUE(Validate(ValidConfig()).ok()) << Validate(ValidConfig());
  // Each knob has a field of its own.
  Config config;
  std::set<const void*> fields;
  size_t bytes = 0;
  for (const Knob& knob : Knobs()) {
    std::visit(
        [&](const auto& field) {
          EXPECT_TRUE(fields.insert(&field(config)).second) << knob.name;
          bytes += std::max(sizeof(field(config)), alignof(Config));
        },
        knob.field);
  }
  // Every field has a knob or is named here: together their sizes make up the size of the struct.
  const delivery::ShardLimits& limits = config.node.limits;
  const catalog::CatalogOptions& catalog = config.node.catalog;
  bytes += sizeof(limits.fire_per_step) + sizeof(limits.startup_rate) +
           sizeof(limits.failure_rate) + sizeof(limits.nameless_retry) + sizeof(limits.lease_key) +
           sizeof(config.server.version) + sizeof(config.store.open_files_max) +
           sizeof(catalog.tombstone_retention_ms) + sizeof(catalog.request_retention_ms) +
           std::max(sizeof(catalog.shards), alignof(Config));
  EXPECT_EQ(bytes, sizeof(Config));
}

// Gives a knob's field another value than its default.
struct Changer {
  const Knob& knob;
  void operator()(uint64_t* number) const { *number = knob.min + 1; }
  void operator()(std::string* text) const {
    *text = absl::StrCat("a \"quoted\" \\ value\b\n\x7f of ", knob.name);
  }
  void operator()(std::vector<std::string>* list) const { *list = {"one", "two"}; }
  void operator()(bool* flag) const { *flag = !*flag; }
};

TEST(TomlTest, RoundTripsEveryKnob) {
  Config config;
  for (const Knob& knob : Knobs()) {
    std::visit([&](const auto& field) { Changer{knob}(&field(config)); }, knob.field);
  }
  Config read;
  ASSERT_TRUE(ApplyToml(ToToml(config), "f.toml", &read).ok());
  for (const Knob& knob : Knobs()) {
    EXPECT_EQ(ValueText(knob, read), ValueText(knob, config)) << knob.name;
    EXPECT_NE(ValueText(knob, read), ValueText(knob, Config())) << knob.name;
  }
}

TEST(KnobsTest, NumbersAreThoseOfTheConfig) {
  Config config;
  config.node.mailbox.bytes_max = 77;
  const auto numbers = Numbers(config);
  EXPECT_EQ(numbers.size(),
            static_cast<size_t>(std::count_if(Knobs().begin(), Knobs().end(), [](const Knob& knob) {
              return knob.number() != nullptr;
            })));
  EXPECT_THAT(numbers, Contains(Pair("mailbox_bytes_max", 77u)));
  EXPECT_THAT(numbers, Contains(Pair("shards", 0u)));
}

TEST(TomlTest, TakesSuffixesAndKeepsDefaultsOfTheRest) {
  Config config;
  ASSERT_TRUE(ApplyToml("load_window_ms = \"1m\"\nwal_bytes_max = \"1GiB\"\nloaded_max = 5_000\n"
                        "listen = [\"unix:/a\", \"127.0.0.1:1\"]\ninsecure_nonloopback = true\n",
                        "f.toml", &config)
                  .ok());
  EXPECT_EQ(config.node.limits.scheduler.load_window_ms, 60'000u);
  EXPECT_EQ(config.store.wal_bytes_max, uint64_t{1} << 30);
  EXPECT_EQ(config.node.limits.scheduler.loaded_max, 5'000u);
  EXPECT_THAT(config.server.listen, ElementsAre("unix:/a", "127.0.0.1:1"));
  EXPECT_TRUE(config.server.insecure_nonloopback);
  EXPECT_EQ(config.node.limits.due_max, Config().node.limits.due_max);
}

TEST(TomlTest, NamesThePlaceOfEachFault) {
  Config config;
  const absl::Status status = ApplyToml(
      "data_dir = \"/d\"\n  shard = 4\nshards = \"four\"\nlisten = \"127.0.0.1:1\"\n"
      "heartbeat_ms = 1.5\ninsecure_nonloopback = 1\ndue_max = -1\n[tls]\ncert = \"x\"\n",
      "conf/d.toml", &config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("conf/d.toml:2:3: unknown key shard"));
  EXPECT_THAT(text, HasSubstr("conf/d.toml:3:10: shards: \"four\" is not a whole number"));
  EXPECT_THAT(text, HasSubstr("conf/d.toml:4:10: listen must be an array of strings"));
  EXPECT_THAT(text, HasSubstr("conf/d.toml:5:16: heartbeat_ms must be an integer"));
  EXPECT_THAT(text, HasSubstr("conf/d.toml:6:24: insecure_nonloopback must be true or false"));
  EXPECT_THAT(text, HasSubstr("conf/d.toml:7:11: due_max = -1 is out of bounds: 1000 to"));
  EXPECT_THAT(text, HasSubstr("unknown key tls"));
}

TEST(TomlTest, NamesThePlaceOfASyntaxError) {
  Config config;
  const absl::Status status = ApplyToml("data_dir = \"/d\"\nshards 4\n", "d.toml", &config);
  EXPECT_THAT(std::string(status.message()), HasSubstr("d.toml:2:"));
}

TEST(LoadTest, AFlagGoesBeforeTheFileAndTheFileBeforeTheDefault) {
  const TempFile file("data_dir = \"/from/file\"\nload_window_ms = 5000\nheartbeat_ms = 2000\n");
  const Loaded loaded = LoadWith({"--config", file.path(), "--load-window-ms=7s", "--listen",
                                  "127.0.0.1:1", "--listen", "unix:/s", "--insecure-nonloopback"});
  ASSERT_TRUE(loaded.run) << loaded.output;
  EXPECT_EQ(loaded.config.store.data_dir, "/from/file");
  EXPECT_EQ(loaded.config.node.limits.scheduler.load_window_ms, 7'000u);
  EXPECT_EQ(loaded.config.server.heartbeat_ms, 2'000u);
  EXPECT_EQ(loaded.config.node.limits.spill_age_ms, Config().node.limits.spill_age_ms);
  EXPECT_THAT(loaded.config.server.listen, ElementsAre("127.0.0.1:1", "unix:/s"));
  EXPECT_TRUE(loaded.config.server.insecure_nonloopback);
}

TEST(LoadTest, AnEmptyTextIsAValue) {
  const Loaded loaded = LoadWith({"--data-dir=/d", "--metrics-listen", ""});
  ASSERT_TRUE(loaded.run) << loaded.output;
  EXPECT_EQ(loaded.config.metrics.listen, "");
}

TEST(LoadTest, AnEmptyValueIsNotTheNextWord) {
  Loaded loaded = LoadWith({"--data-dir=/d", "--metrics-listen=", "--init"});
  ASSERT_TRUE(loaded.run) << loaded.output;
  EXPECT_EQ(loaded.config.metrics.listen, "");
  EXPECT_TRUE(loaded.init);
  for (const std::vector<const char*>& flags :
       {std::vector<const char*>{"--data-dir="}, std::vector<const char*>{"--data-dir=", "--init"},
        std::vector<const char*>{"--data-dir=", "/d"},
        std::vector<const char*>{"--data-dir=/d", "--config=", "--init"},
        std::vector<const char*>{"--data-dir=/d", "--due-max=", "2000"}}) {
    loaded = LoadWith(flags);
    EXPECT_FALSE(loaded.run) << flags.front();
    EXPECT_EQ(loaded.exit_code, ExitCode::kConfiguration);
  }
}

TEST(LoadTest, AFlagCanTurnOffWhatTheFileTurnedOn) {
  const TempFile file("data_dir = \"/d\"\ninsecure_nonloopback = true\n");
  const Loaded loaded = LoadWith({"--config", file.path(), "--insecure-nonloopback=false"});
  ASSERT_TRUE(loaded.run) << loaded.output;
  EXPECT_FALSE(loaded.config.server.insecure_nonloopback);
}

TEST(LoadTest, HelpListsEveryKnobWithUnitDefaultAndBounds) {
  const Loaded loaded = LoadWith({"--help"});
  EXPECT_FALSE(loaded.run);
  EXPECT_EQ(loaded.exit_code, ExitCode::kStopped);
  std::string text = loaded.output;
  absl::RemoveExtraAsciiWhitespace(&text);
  for (const Knob& knob : Knobs()) {
    const char* const after = knob.bare == nullptr ? " " : "{";
    EXPECT_THAT(text, HasSubstr(absl::StrCat("--", FlagName(knob.name), after)));
    EXPECT_THAT(text, HasSubstr(absl::StrCat("[", BoundsText(knob), "]")));
    EXPECT_THAT(text, HasSubstr(knob.description));
  }
  EXPECT_THAT(text, HasSubstr("ms, default 30000 (30s), 1000 to 86400000"));
  EXPECT_THAT(loaded.output, HasSubstr(ExitCodesText()));
}

TEST(LoadTest, CheckConfigPrintsWhatIsInForce) {
  const Loaded loaded = LoadWith({"--check-config", "--data-dir=/d", "--heartbeat-ms", "1m"});
  EXPECT_FALSE(loaded.run);
  EXPECT_EQ(loaded.exit_code, ExitCode::kStopped);
  EXPECT_THAT(loaded.output, HasSubstr("data_dir = \"/d\"\n"));
  EXPECT_THAT(loaded.output, HasSubstr("heartbeat_ms = 60000\n"));
}

TEST(ExitCodeTest, AFailedStartHasTheCodeOfItsCause) {
  const std::vector<std::pair<absl::Status, ExitCode>> cases = {
      {absl::DataLossError("damaged"), ExitCode::kDataDamaged},
      {absl::NotFoundError("no store"), ExitCode::kNoStore},
      {absl::UnavailableError("in use by another process"), ExitCode::kInUse},
      {base::StorageFailedError(), ExitCode::kDiskError},
      {absl::InternalError("write"), ExitCode::kDiskError},
      {absl::FailedPreconditionError("other shards"), ExitCode::kConfiguration},
      {absl::InvalidArgumentError("shards"), ExitCode::kConfiguration},
      {absl::UnknownError("?"), ExitCode::kFailed},
  };
  for (const auto& [status, code] : cases) {
    EXPECT_EQ(CodeOfFailedStart(status), code) << status;
  }
}

TEST(LoadTest, VerifyNeedsNoConfiguration) {
  const Loaded loaded = LoadWith({"--verify", "/d"});
  EXPECT_FALSE(loaded.run);
  EXPECT_EQ(loaded.exit_code, ExitCode::kStopped);
  EXPECT_EQ(loaded.verify_dir, "/d");
}

TEST(LoadTest, VerifyOfAnEmptyNameDoesNotStartTheDaemon) {
  for (const std::vector<const char*>& flags :
       {std::vector<const char*>{"--data-dir=/d", "--verify="},
        std::vector<const char*>{"--data-dir=/d", "--verify", ""}}) {
    const Loaded loaded = LoadWith(flags);
    EXPECT_FALSE(loaded.run);
    EXPECT_EQ(loaded.exit_code, ExitCode::kConfiguration);
    EXPECT_THAT(loaded.output, HasSubstr("--verify"));
  }
}

TEST(LoadTest, RepairNeedsItsTwoDirectoriesAndNothingElse) {
  const Loaded loaded = LoadWith({"--repair", "/d", "--into=/new"});
  EXPECT_FALSE(loaded.run);
  EXPECT_EQ(loaded.exit_code, ExitCode::kStopped);
  EXPECT_EQ(loaded.repair_dir, "/d");
  EXPECT_EQ(loaded.into_dir, "/new");
  EXPECT_EQ(LoadWith({"--restore", "/b", "--into=/new"}).restore_dir, "/b");
  for (const std::vector<const char*>& flags :
       {std::vector<const char*>{"--data-dir=/d", "--repair", "/d"},
        std::vector<const char*>{"--data-dir=/d", "--into", "/d"},
        std::vector<const char*>{"--data-dir=/d", "--repair=", "--into=/new"},
        std::vector<const char*>{"--data-dir=/d", "--restore", "/d"},
        std::vector<const char*>{"--repair=/d", "--restore=/d", "--into=/new"},
        std::vector<const char*>{"--data-dir=/d", "--repair=/d", "--into="}}) {
    const Loaded refused = LoadWith(flags);
    EXPECT_FALSE(refused.run);
    EXPECT_TRUE(refused.repair_dir.empty() && refused.restore_dir.empty());
    EXPECT_EQ(refused.exit_code, ExitCode::kConfiguration);
    EXPECT_THAT(refused.output, HasSubstr("--into"));
  }
}

TEST(LoadTest, EveryFaultIsNamedAndTheExitCodeSaysSo) {
  const TempFile file("shard = 1\n");
  for (bool check : {false, true}) {
    std::vector<const char*> flags = {"--config", file.path(), "--loaded-max=10", "--due-max=x"};
    if (check) flags.push_back("--check-config");
    const Loaded loaded = LoadWith(flags);
    EXPECT_FALSE(loaded.run);
    EXPECT_EQ(loaded.exit_code, ExitCode::kConfiguration);
    EXPECT_THAT(loaded.output, HasSubstr(":1:1: unknown key shard"));
    EXPECT_THAT(loaded.output, HasSubstr("data_dir is required"));
    EXPECT_THAT(loaded.output, HasSubstr("loaded_max = 10 is out of bounds: 1000 to 100000000"));
    EXPECT_THAT(loaded.output, HasSubstr("--due-max: \"x\" is not a whole number"));
  }
}

TEST(LoadTest, UnknownFlagsMissingFilesAndStrayWordsAreFaults) {
  for (const std::vector<const char*>& flags :
       {std::vector<const char*>{"--data-dir=/d", "--no-such-flag"},
        std::vector<const char*>{"--data-dir=/d", "stray"},
        std::vector<const char*>{"--data-dir=/d", "--config", "/no/such/file.toml"},
        std::vector<const char*>{"--data-dir"}}) {
    const Loaded loaded = LoadWith(flags);
    EXPECT_FALSE(loaded.run);
    EXPECT_EQ(loaded.exit_code, ExitCode::kConfiguration);
    EXPECT_NE(loaded.output, "");
  }
}

TEST(ExitCodeTest, TheTableIsComplete) {
  int last = -1;
  for (const ExitCodeText& exit : ExitCodes()) {
    EXPECT_GT(static_cast<int>(exit.code), last) << "ascending, so each appears once";
    EXPECT_THAT(exit.meaning, Not(HasSubstr("|"))) << "breaks the table in RUNBOOK.md";
    last = static_cast<int>(exit.code);
  }
  EXPECT_EQ(ExitCodes().size(), 11u);
}

TEST(KnobTest, ChangedNamesTheKnobsThatDiffer) {
  const Config before;
  Config after;
  EXPECT_THAT(Changed(before, after), ElementsAre());
  after.log.level = "debug";
  after.server.listen = {"127.0.0.1:1"};
  EXPECT_THAT(Changed(before, after), ElementsAre("listen", "log_level"));
}

TEST(LoadTest, VersionIsPrinted) {
  const Loaded loaded = LoadWith({"--version"});
  EXPECT_FALSE(loaded.run);
  EXPECT_EQ(loaded.exit_code, ExitCode::kStopped);
  EXPECT_THAT(loaded.output, ::testing::StartsWith("duetimed "));
}

// Expects that `config` has exactly one fault, whose text contains `what`.
void ExpectFault(const Config& config, const std::string& what) {
  const absl::Status status = Validate(config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

TEST(ValidateTest, EveryNumberIsRefusedBeyondEachOfItsBounds) {
  size_t checked = 0;
  for (const Knob& knob : Knobs()) {
    const auto* number = knob.number();
    if (number == nullptr) continue;
    Config config = ValidConfig();
    (*number)(config) = knob.max + 1;
    ExpectFault(config, absl::StrCat(knob.name, " = ", knob.max + 1,
                                     " is out of bounds: ", knob.min, " to ", knob.max));
    if (knob.min > 0) {
      (*number)(config) = knob.min - 1;
      ExpectFault(config, absl::StrCat(knob.name, " = ", knob.min - 1, " is out of bounds"));
    }
    ++checked;
  }
  EXPECT_GT(checked, 30u);
}

TEST(ValidateTest, ClaimsAreRenewedBeforeTheyRunOut) {
  Config config = ValidConfig();
  config.node.limits.scheduler.claim_renew_ms = config.node.limits.scheduler.claim_ahead_ms;
  ExpectFault(config, "claim_renew_ms = 1000 must be below claim_ahead_ms = 1000");
}

TEST(ValidateTest, TlsFilesComeTogether) {
  Config config = ValidConfig();
  config.server.tls_cert = "cert.pem";
  ExpectFault(config, "tls_cert and tls_key must be given together");
  config.server.tls_key = "key.pem";
  EXPECT_TRUE(Validate(config).ok());
  config.server.tls_cert = config.server.tls_key = "";
  config.server.tls_client_ca = "ca.pem";
  ExpectFault(config, "tls_client_ca needs tls_cert");
}

TEST(ValidateTest, PlaintextBeyondThisMachineNeedsToBeSaid) {
  Config config = ValidConfig();
  config.server.listen = {"127.0.0.1:7788", "0.0.0.0:7788"};
  ExpectFault(config, "listen = \"0.0.0.0:7788\" can be reached by other machines");
  config.server.insecure_nonloopback = true;
  EXPECT_TRUE(Validate(config).ok());
  config.server.insecure_nonloopback = false;
  config.server.tls_cert = "cert.pem";
  config.server.tls_key = "key.pem";
  // Encrypted, but everyone may do everything.
  ExpectFault(config, "listen = \"0.0.0.0:7788\" can be reached by other machines");
  config.server.tls_client_ca = "ca.pem";
  EXPECT_TRUE(Validate(config).ok());
  config.server.tls_client_ca = "";
  config.access.access_file = "/dev/null";
  EXPECT_TRUE(Validate(config).ok());
  // TLS covers gRPC only.
  config.metrics.listen = "0.0.0.0:7789";
  ExpectFault(config, "metrics_listen = \"0.0.0.0:7789\" can be reached");
  config.metrics.insecure_nonloopback = true;
  EXPECT_TRUE(Validate(config).ok());
}

TEST(ValidateTest, AnAccessFileMustBeReadable) {
  Config config = ValidConfig();
  config.access.access_file = "/nowhere/access.toml";
  ExpectFault(config, "/nowhere/access.toml: cannot be read");
}

TEST(ValidateTest, AddressesAreWellFormed) {
  Config config = ValidConfig();
  config.server.listen = {};
  ExpectFault(config, "listen must name at least one address");
  config.server.listen = {"nonsense"};
  ExpectFault(config, "listen: \"nonsense\" is neither host:port nor unix:/path");
  config = ValidConfig();
  config.metrics.listen = "unix:/m";
  ExpectFault(config, "metrics_listen must be host:port");
  config.metrics.listen = "";
  EXPECT_TRUE(Validate(config).ok());
}

TEST(ValidateTest, SizesFitIntoEachOther) {
  Config config = ValidConfig();
  config.server.limits.payload_bytes_max = 2 << 20;
  config.server.limits.batch_bytes_max = 1 << 20;
  ExpectFault(config, "payload_bytes_max = 2097152 is above batch_bytes_max = 1048576");
  config = ValidConfig();
  config.node.mailbox.bytes_max = 1 << 20;
  ExpectFault(config, "batch_bytes_max");
  config = ValidConfig();
  config.store.write_buffer_bytes = uint64_t{1} << 30;
  ExpectFault(config, "wal_bytes_max");
}

TEST(ValidateTest, ChoicesAreNamed) {
  Config config = ValidConfig();
  config.log.format = "xml";
  ExpectFault(config, "log_format = \"xml\" is not one of text, json");
}

}  // namespace
}  // namespace duetime::config
