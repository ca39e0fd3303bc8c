// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.MessageOrBuilder;
import com.google.protobuf.util.JsonFormat;
import io.github.duetime.client.DuetimeException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** JSON: protos, errors, and the lines that go out. */
final class Wire {
  private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

  private Wire() {}

  @SuppressWarnings("unchecked")
  static <B extends Message.Builder> B parse(JsonElement json, B builder) {
    try {
      JsonFormat.parser().merge(json.toString(), builder);
    } catch (InvalidProtocolBufferException e) {
      throw new IllegalArgumentException(e);
    }
    return builder;
  }

  static JsonObject json(MessageOrBuilder message) {
    try {
      JsonFormat.Printer printer = JsonFormat.printer().preservingProtoFieldNames().omittingInsignificantWhitespace();
      return JsonParser.parseString(printer.print(message)).getAsJsonObject();
    } catch (InvalidProtocolBufferException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static JsonObject json(DuetimeException error) {
    JsonObject json = new JsonObject();
    json.addProperty("code", error.code().name());
    json.addProperty("reason", error.reason());
    json.addProperty("message", error.getMessage());
    JsonObject metadata = new JsonObject();
    error.metadata().forEach(metadata::addProperty);
    json.add("metadata", metadata);
    if (!error.fieldViolations().isEmpty()) {
      JsonArray fields = new JsonArray();
      error.fieldViolations().forEach(violation -> fields.add(violation.field()));
      json.add("fields", fields);
    }
    error.retryDelay().ifPresent(delay -> json.addProperty("retry_delay_ms", delay.toMillis()));
    json.addProperty("type", error.getClass().getCanonicalName());
    return json;
  }

  /** Returns an object with one field. */
  static JsonObject of(String name, JsonElement value) {
    JsonObject json = new JsonObject();
    json.add(name, value);
    return json;
  }

  static String text(JsonObject request, String name) {
    return request.has(name) ? request.get(name).getAsString() : "";
  }

  static Duration millis(JsonObject request, String name, Duration otherwise) {
    return request.has(name) ? Duration.ofMillis(request.get(name).getAsLong()) : otherwise;
  }

  static void print(JsonObject line) {
    String text = line.toString();
    synchronized (OUT) {
      OUT.print(text + "\n");
      OUT.flush();
    }
  }
}
