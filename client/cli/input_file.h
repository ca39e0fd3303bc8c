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

// Reads the lines of a text in UTF-8, without the mark with which some programs begin it. Zero
// bytes are bytes like others. zlib recognises a compressed file by its first bytes.
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

  // INVALID_ARGUMENT if the file could not be read to its end: an error of the disk, a compressed
  // file that is damaged or cut short, or a text in UTF-16.
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
  // Reads the next bytes into the empty buffer. Returns false at the end, and after an error.
  bool Fill();

  // The bytes that were read and are not part of a line yet: buffer_[begin_, end_).
  std::array<char, 1 << 16> buffer_{};
  size_t begin_ = 0;
  size_t end_ = 0;
  bool starts_ = true;
  bool is_utf16_ = false;
};

}  // namespace duetime::cli
