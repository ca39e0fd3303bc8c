// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer: on every file of --corpus=DIR, then on pseudo-random inputs
// and on damaged copies of the corpus. --seed=N repeats a run. --inputs=N sets the number of
// inputs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"
#include "tests/support/test_scale.h"

namespace {

constexpr size_t kInputBytesMax = 2'048;

void RunOne(const std::string& input) {
  std::vector<uint8_t> bytes(input.begin(), input.end());
  // Shrinks the buffer to the input, so that a sanitizer sees a read beyond the end.
  bytes.shrink_to_fit();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

// The files of `directory` in the order of their names.
std::vector<std::string> ReadCorpus(const std::string& directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

std::string RandomInput(std::mt19937_64* random) {
  // Short inputs are as likely as long ones.
  const size_t size = (*random)() % (size_t{1} << ((*random)() % 12)) % kInputBytesMax;
  std::string input(size, '\0');
  for (char& c : input) c = static_cast<char>((*random)());
  return input;
}

std::string Damage(std::string input, std::mt19937_64* random) {
  for (uint64_t changes = (*random)() % 4 + 1; changes > 0 && !input.empty(); --changes) {
    const size_t at = (*random)() % input.size();
    switch ((*random)() % 4) {
      case 0:
        input[at] = static_cast<char>((*random)());
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ (1 << ((*random)() % 8)));
        break;
      case 2:
        input.resize(at);
        break;
      default:
        input.insert(at, RandomInput(random).substr(0, 16));
        break;
    }
  }
  return input;
}

// The value of --name=VALUE, or `otherwise`.
std::string Flag(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  const std::string prefix = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(prefix, 0) == 0) return argument.substr(prefix.size());
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = Flag(argc, argv, "corpus", "");
  const uint64_t seed = std::strtoull(
      Flag(argc, argv, "seed", std::to_string(std::random_device{}())).c_str(), nullptr, 10);
  const int64_t inputs =
      duetime::test::Scaled(std::strtoll(Flag(argc, argv, "inputs", "2000").c_str(), nullptr, 10));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);

  const std::vector<std::string> corpus =
      directory.empty() ? std::vector<std::string>() : ReadCorpus(directory);
  if (!directory.empty() && corpus.empty()) {
    std::fprintf(stderr, "no corpus in %s\n", directory.c_str());
    return 1;
  }
  for (const std::string& input : corpus) RunOne(input);

  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < inputs; ++i) {
    if (corpus.empty() || i % 2 == 0) {
      RunOne(RandomInput(&random));
    } else {
      RunOne(Damage(corpus[random() % corpus.size()], &random));
    }
  }
  std::printf("%zu corpus files and %lld inputs passed\n", corpus.size(),
              static_cast<long long>(inputs));
  return 0;
}
