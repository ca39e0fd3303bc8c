# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the scripts that a person or a CI job watches: one line for each step, with the time it took. What a step
# prints goes to a log file, and the end of that file is shown if the step fails. Needs bash and coreutils only.

# Milliseconds of a clock for measuring, without a process.
now_ms() {
  local us=${EPOCHREALTIME/[.,]/}
  echo $((us / 1000))
}

seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

# step LOG TITLE COMMAND... : runs the command with its output in LOG. Prints the title at the start (so that it is known
# what takes long) and the time at the end. Returns the command's status. No stdin: nothing here may wait for an answer.
step() {
  local log=$1 title=$2 start status=0
  shift 2
  start=$(now_ms)
  printf '%-66s' "$title"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status == 0)); then
    printf '%9s\n' "$(seconds_since "$start")"
  else
    printf 'FAILED (exit %d) after %s\n' "$status" "$(seconds_since "$start")"
    show_tail "$log"
  fi
  return "$status"
}

# Shows the end of a log, indented, so that the failure is in front of the reader and not in a file.
show_tail() {
  echo "  the end of $1:"
  tail -n "${2:-40}" "$1" | sed 's/^/  | /'
}
