// SPDX-License-Identifier: Apache-2.0
//
// The parts of the help that belong to no single command. --help and the man page print them.
#pragma once

namespace duetime::cli {

inline constexpr char kPurpose[] = "messages that are delivered at their time";

// The groups of commands in --help, each with its first words. Commands of commands, such as "topic
// create", stand in the help of "topic".
struct CommandGroup {
  const char* title;
  const char* words;
};
inline constexpr CommandGroup kCommandGroups[] = {
    {"Begin with these", "schedule cancel explain list subscribe"},
    {"Messages", "reschedule get pull settle forecast import export bulk dlq recur"},
    {"Topics and their readers", "topic subscription streams end-stream"},
    {"The server", "dev info damage doctor top bench console backup restore cell clock"},
    {"Access, and this tool", "access token context completion man"},
};

inline constexpr char kFirstSteps[] =
    R"(The first steps, with a server on this machine, such as that of duetime dev:
  duetime schedule greetings "hello in five seconds" --in 5s
  duetime subscribe greetings
Look ahead, look at one message, and look at dead letters:
  duetime list greetings
  duetime forecast greetings --bucket minute
  duetime explain ID
  duetime dlq list greetings
)";

inline constexpr char kExitCodes[] = R"(  0  done
  1  the server refused the request, or failed; the reason is on stderr
  2  the command line is wrong
     doctor --quiet: 1 if there are warnings only, 2 if something is bad
  3  the resource does not exist; cancel, reschedule: a message was not
     cancelled or moved, and why; subscribe: --for ran out before --max
     messages came; pull: nothing came; settle: the server refused some;
     import: some lines were refused; commands with --wait: the operation
     failed or was stopped; doctor: something is bad; bench: it was not
     completed
  4  no server, or no answer in time: the server may have done the work
  5  standard output could not be written: the server may have done the work,
     but pull, subscribe, export and token create keep what was not written
  130  ended by Ctrl-C during a long work; the last line says how far it is
)";

inline constexpr char kTimes[] =
    R"(Options that take a TIME understand now, +30m and -1h (from now), "today 18:00",
"tomorrow 9am", "2026-12-24 18:00" and 2026-12-24T18:00:00+08:00. A DURATION
is 90s, 1h30m, 2d, 1w or 500ms.
)";

inline constexpr char kJson[] =
    R"(With --json, each result is the server's answer in proto3 JSON, as one line
of stdout, and an error is one line of stderr. Fields are named as in the
protos; payloads are base64, 64-bit numbers are strings.
)";

}  // namespace duetime::cli
