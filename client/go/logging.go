// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"log"
	"runtime/debug"
)

// logf writes a line to the logger.
func (o Options) logf(format string, arguments ...any) {
	// A logger that panics must not end the program.
	defer func() { _ = recover() }()
	logger := o.Logger
	if logger == nil {
		logger = log.Default()
	}
	logger.Printf("duetime: "+format, arguments...)
}

// logPanic, deferred, logs a panic of a function of the user, and ends the panic.
func (o Options) logPanic(function string) {
	if value := recover(); value != nil {
		o.logf("%s panicked: %v\n%s", function, value, debug.Stack())
	}
}
