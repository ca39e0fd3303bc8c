// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.testing;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives a test that has a parameter of the type {@link TestServer} a server of its own, and closes it after the test:
 * {@code @ExtendWith(TestServerExtension.class)}. Needs JUnit 5, which this library does not bring along.
 */
public final class TestServerExtension implements ParameterResolver, AfterEachCallback {
  private static final ExtensionContext.Namespace OURS = ExtensionContext.Namespace.create(TestServerExtension.class);

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
    return parameter.getParameter().getType() == TestServer.class && test.getTestMethod().isPresent();
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext test) {
    return test.getStore(OURS).getOrComputeIfAbsent(TestServer.class, type -> TestServer.start(), TestServer.class);
  }

  @Override
  public void afterEach(ExtensionContext test) {
    TestServer server = test.getStore(OURS).remove(TestServer.class, TestServer.class);
    if (server != null) server.close();
  }
}
