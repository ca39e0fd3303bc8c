// SPDX-License-Identifier: Apache-2.0
#include "client/cli/input_file.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <zlib.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace duetime::cli {
namespace {

constexpr unsigned kBufferBytes = 1 << 18;
// Some programs put it before a text.
constexpr absl::string_view kUtf8Mark = "\xEF\xBB\xBF";

gzFile Stream(void* stream) { return static_cast<gzFile>(stream); }

}  // namespace

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& name) {
  const absl::Status unreadable = absl::InvalidArgumentError("cannot read the file " + name);
  const int file = name == "-" ? dup(STDIN_FILENO) : open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return unreadable;
  struct stat about {};
  if (fstat(file, &about) != 0 || S_ISDIR(about.st_mode)) {
    close(file);
    return unreadable;
  }
  const gzFile stream = gzdopen(file, "rb");
  if (stream == nullptr) {
    close(file);
    return absl::ResourceExhaustedError("no memory to read a file");
  }
  gzbuffer(stream, kBufferBytes);
  const int64_t size = S_ISREG(about.st_mode) ? about.st_size : 0;
  return std::unique_ptr<InputFile>(new InputFile(name, stream, size));
}

InputFile::~InputFile() { gzclose_r(Stream(stream_)); }

bool InputFile::Fill() {
  if (is_utf16_) return false;
  const int read = gzread(Stream(stream_), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  begin_ = 0;
  end_ = read > 0 ? static_cast<size_t>(read) : 0;
  if (std::exchange(starts_, false)) {
    const absl::string_view text(buffer_.data(), end_);
    if (absl::StartsWith(text, kUtf8Mark)) begin_ = kUtf8Mark.size();
    // Without a mark, every ASCII character has a zero byte beside it.
    is_utf16_ = absl::StartsWith(text, "\xFF\xFE") || absl::StartsWith(text, "\xFE\xFF") ||
                absl::StrContains(text.substr(0, 2), '\0');
  }
  return !is_utf16_ && begin_ < end_;
}

bool InputFile::ReadLine(std::string* line) {
  const size_t before = line->size();
  while (begin_ < end_ || Fill()) {
    const absl::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const absl::string_view part = rest.substr(0, rest.find('\n'));
    const bool ends = part.size() < rest.size();
    line->append(rest.data(), part.size() + (ends ? 1 : 0));
    begin_ += part.size() + (ends ? 1 : 0);
    if (ends) return true;
  }
  return line->size() > before;
}

absl::Status InputFile::status() const {
  if (is_utf16_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " is in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"));
  }
  int error = Z_OK;
  // The text begins with a name that zlib has given the file.
  const std::pair<absl::string_view, absl::string_view> text =
      absl::StrSplit(gzerror(Stream(stream_), &error), absl::MaxSplits(": ", 1));
  if (error == Z_OK || error == Z_STREAM_END) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot read on: ", name_, ": ", text.second));
}

std::optional<double> InputFile::Part() const {
  if (size_ == 0) return std::nullopt;
  const double done = static_cast<double>(gzoffset(Stream(stream_)));
  return std::min(1.0, done / static_cast<double>(size_));
}

}  // namespace duetime::cli
