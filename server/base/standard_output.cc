// SPDX-License-Identifier: Apache-2.0
#include "server/base/standard_output.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

#include "server/base/mutex.h"
#include "server/base/write_all.h"

namespace duetime::base {
namespace {

// The errno of the first write that failed; 0: none has.
std::atomic<int> output_error = 0;
// Gives each closed stream a file whose reads and writes fail. Otherwise the next file or socket
// would have its number, and would get what the program prints.
void FillClosedStreams(int, char**, char**) {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free number, which is that of the stream.
    open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}
// Runs before the initialisers of libraries, some of which open files.
using Initialiser = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) Initialiser fill_closed_streams =
    FillClosedStreams;

// True if the program was started with the default SIGPIPE.
bool pipe_ends_program = false;

}  // namespace

void PrepareOutput() { pipe_ends_program = std::signal(SIGPIPE, SIG_IGN) == SIG_DFL; }

bool WriteOutput(absl::string_view text) {
  static Mutex mutex;
  const MutexLock lock(&mutex);
  if (output_error != 0) return false;
  if (!WriteAll(STDOUT_FILENO, text)) output_error = errno;
  return output_error == 0;
}

absl::Status OutputStatus() {
  const int error = output_error;
  if (error == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::ErrnoToStatus(error, "cannot write to standard output").message());
}

absl::Status CloseOutput() {
  int none = 0;
  if (close(STDOUT_FILENO) != 0) output_error.compare_exchange_strong(none, errno);
  if (output_error == EPIPE && pipe_ends_program) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return OutputStatus();
}

}  // namespace duetime::base
