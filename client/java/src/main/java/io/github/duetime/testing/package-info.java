// SPDX-License-Identifier: Apache-2.0
/**
 * Servers with a test clock, to test one's own code: {@link io.github.duetime.testing.TestServer}, and
 * {@link io.github.duetime.testing.TestServerExtension} for JUnit 5.
 */
package io.github.duetime.testing;
