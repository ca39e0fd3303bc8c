// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.conformance;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** The driver of the conformance suite: reads requests, and runs each on a thread of its own. */
public final class Driver {
  private Driver() {}

  /** Reads requests until the end of the standard input. */
  public static void main(String[] arguments) throws IOException, InterruptedException {
    Calls calls = new Calls();
    ExecutorService threads = Executors.newCachedThreadPool();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String text = line;
      threads.execute(() -> Wire.print(answer(calls, text)));
    }
    threads.shutdown();
    calls.close();
    threads.awaitTermination(5, TimeUnit.SECONDS);
    System.exit(0);
  }

  private static JsonObject answer(Calls calls, String line) {
    JsonObject request = JsonParser.parseString(line).getAsJsonObject();
    JsonObject answer = calls.outcome(request);
    answer.add("id", request.get("id"));
    return answer;
  }
}
