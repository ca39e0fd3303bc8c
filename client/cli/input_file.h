// SPDX-License-Identifier: Apache-2.0
//
// InputFile: a file or standard input, plain or compressed by gzip.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace duetime::cli {

// Reads from the first byte to the last. zlib recognises a compressed file by its first bytes.
//
// Thread safety: one thread at a time.
class InputFile {
 public:
  // Opens the file, or standard input if the name is "-". INVALID_ARGUMENT if it cannot be read.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& name);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Appends the next line to `line`, with its line break if it has one. Returns false at the end,
  // and after an error.
  bool ReadLine(std::string* line);

  // INVALID_ARGUMENT if the file could not be read to its end: an error of the disk, or a
  // compressed file that is damaged or cut short.
  absl::Status status() const;

  // The part of the file that is read, from 0 to 1; nullopt if the size is not known.
  std::optional<double> Part() const;

 private:
  InputFile(std::string name, void* stream, int64_t size)
      : name_(std::move(name)), stream_(stream), size_(size) {}

  const std::string name_;
  // zlib's gzFile.
  void* const stream_;
  // On disk; 0 if unknown.
  const int64_t size_;
  // A part of a line, as zlib reads it.
  std::array<char, 4096> piece_{};
};

}  // namespace duetime::cli
