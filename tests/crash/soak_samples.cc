// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/soak_samples.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <system_error>

namespace duetime::crash {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = 1 << 20;

struct Column {
  const char* name;
  int64_t Sample::*value;
};
constexpr Column kColumns[] = {
    {"run", &Sample::run},
    {"memory_bytes", &Sample::memory_bytes},
    {"descriptors", &Sample::descriptors},
    {"threads", &Sample::threads},
    {"directory_bytes", &Sample::directory_bytes},
    {"live_bytes", &Sample::live_bytes},
    {"messages", &Sample::messages},
    {"clock_offset_ms", &Sample::clock_offset_ms},
    {"disk_full", &Sample::disk_full},
};

// Files may come and go meanwhile.
template <typename Iterator, typename Take>
void ForEachFile(const std::string& directory, Take take) {
  std::error_code error;
  for (Iterator file(directory, error); !error && file != Iterator(); file.increment(error)) {
    take(file->path());
  }
}

// The greatest value from one moment to another one.
std::optional<int64_t> Max(const std::vector<Sample>& samples, const Bound& bound, double from,
                           double to) {
  std::optional<int64_t> max;
  for (const Sample& sample : samples) {
    if (sample.seconds < from || sample.seconds >= to) continue;
    int64_t value = sample.*bound.value;
    if (bound.value == &Sample::directory_bytes) value -= sample.live_bytes;
    max = std::max(max.value_or(value), value);
  }
  return max;
}

// A plot of one column over the time, at height `top` of the picture.
std::string Plot(const std::vector<Sample>& samples, const Column& column, int top) {
  constexpr int kWidth = 900;
  constexpr int kHeight = 90;
  int64_t least = 0;
  int64_t most = 1;
  for (const Sample& sample : samples) {
    least = std::min(least, sample.*column.value);
    most = std::max(most, sample.*column.value);
  }
  std::ostringstream svg;
  svg << "<text x='5' y='" << top + 12 << "'>" << column.name << ", " << least << " to " << most
      << "</text>\n<rect x='0' y='" << top + 18 << "' width='" << kWidth << "' height='" << kHeight
      << "' fill='none' stroke='#ccc'/>\n<polyline fill='none' stroke='#06c' points='";
  for (const Sample& sample : samples) {
    const double share =
        static_cast<double>(sample.*column.value - least) / static_cast<double>(most - least);
    svg << sample.seconds / std::max(samples.back().seconds, 1.0) * kWidth << ','
        << top + 18 + kHeight * (1 - share) << ' ';
  }
  svg << "'/>\n";
  return svg.str();
}

}  // namespace

bool Measure(pid_t pid, const std::string& directory, Sample* sample) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream status(process + "/status");
  std::string word;
  int64_t found = 0;
  while (status >> word) {
    int64_t* const value = word == "VmRSS:"     ? &sample->memory_bytes
                           : word == "Threads:" ? &sample->threads
                                                : nullptr;
    if (value != nullptr && status >> *value) ++found;
  }
  sample->memory_bytes *= 1'024;
  sample->descriptors = 0;
  ForEachFile<fs::directory_iterator>(process + "/fd",
                                      [&](const fs::path&) { ++sample->descriptors; });
  sample->directory_bytes = 0;
  ForEachFile<fs::recursive_directory_iterator>(directory, [&](const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) sample->directory_bytes += info.st_blocks * 512;
  });
  return found == 2 && sample->descriptors > 0;
}

std::span<const Bound> Bounds() {
  // Malloc and RocksDB hold memory and files for a while, so a short soak needs the slack.
  static constexpr Bound kBounds[] = {
      {"memory_bytes", &Sample::memory_bytes, 1.15, 48 * kMiB, true},
      {"descriptors", &Sample::descriptors, 1.25, 32, true},
      {"threads", &Sample::threads, 1.1, 8, true},
      {"directory_bytes", &Sample::directory_bytes, 1.25, 64 * kMiB, false},
  };
  return kBounds;
}

std::vector<std::string> Growth(const std::vector<Sample>& samples, double seconds) {
  struct Comparison {
    const char* text;
    double from;
    double to;
    double later_from;
    bool within_run;
  };
  constexpr Comparison kComparisons[] = {
      {"from the second to the last quarter", 0.25, 0.5, 0.75, false},
      {"within the last quarter", 0.75, 0.875, 0.875, true},
  };
  std::vector<std::string> lines;
  for (const Bound& bound : Bounds()) {
    for (const Comparison& part : kComparisons) {
      if (part.within_run && !bound.within_run) continue;
      const auto before = Max(samples, bound, part.from * seconds, part.to * seconds);
      const auto after = Max(samples, bound, part.later_from * seconds, seconds);
      const std::string name = std::string(bound.name) + " " + part.text;
      if (!before.has_value() || !after.has_value()) {
        lines.push_back(name + ": too few samples");
      } else if (static_cast<double>(*after) >
                 static_cast<double>(*before) * bound.factor + static_cast<double>(bound.slack)) {
        lines.push_back(name + ": " + std::to_string(*before) + ", then " + std::to_string(*after));
      }
    }
  }
  return lines;
}

bool WriteSamples(const std::string& folder, const std::vector<Sample>& samples) {
  constexpr int kPlotHeight = 120;
  if (samples.empty()) return false;
  std::ofstream csv(folder + "/samples.csv");
  std::ofstream svg(folder + "/samples.svg");
  csv << "seconds";
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='900' height='"
      << kPlotHeight * static_cast<int>(std::size(kColumns))
      << "' font-family='sans-serif' font-size='12'>\n";
  int top = 0;
  for (const Column& column : kColumns) {
    csv << ',' << column.name;
    svg << Plot(samples, column, top);
    top += kPlotHeight;
  }
  for (const Sample& sample : samples) {
    csv << '\n' << sample.seconds;
    for (const Column& column : kColumns) csv << ',' << sample.*column.value;
  }
  csv << '\n';
  svg << "</svg>\n";
  csv.close();
  svg.close();
  return csv.good() && svg.good();
}

}  // namespace duetime::crash
