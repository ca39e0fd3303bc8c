// SPDX-License-Identifier: Apache-2.0
//
// Calls of the server, through the console's own process.

import type { Calls } from "./types";

// What the console has kept: for each time, in milliseconds since 1970, a value of each name.
export interface History {
  period_ms: number;
  times: number[];
  values: Record<string, (number | null)[]>;
}

// What the console says about itself: console.json.
export interface About {
  version: string;
  server: string;
  // The options of the command line that name the server.
  options: string[];
  // True if the console was started with --metrics, and the person may see them.
  metrics: boolean;
  // True if the console has a history, and the person may see it.
  history: boolean;
  // True if the console changes nothing.
  read_only: boolean;
  // Whose token it is, if the console asks for one.
  principal?: string;
}

export class CallError extends Error {
  constructor(
    readonly code: string,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

// The token of the person, if the console asks for one. Kept for this tab only, and sent by this page only, so that no other site's
// request carries it.
const tokenName = "duetime.token";
let onLoggedOut: (error?: CallError) => void = () => {};

export function logIn(token: string): void {
  sessionStorage.setItem(tokenName, token);
}

// Forgets the token, and shows the login. `error`: why the server refused the token.
export function logOut(error?: CallError): void {
  sessionStorage.removeItem(tokenName);
  onLoggedOut(error);
}

// Calls `listener` when the person is logged out.
export function watchLogOut(listener: (error?: CallError) => void): void {
  onLoggedOut = listener;
}

// The largest answer of the server takes a few seconds; the console itself gives up after its --timeout.
const waitMs = 60_000;

async function request(path: string, init: RequestInit): Promise<Response> {
  const token = sessionStorage.getItem(tokenName);
  const headers = { ...init.headers, ...(token === null ? {} : { Authorization: `Bearer ${token}` }) };
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, signal: AbortSignal.timeout(waitMs) });
  } catch {
    throw new CallError("UNAVAILABLE", "NO_CONSOLE", "the console does not answer: is duetime console still running?");
  }
  if (response.ok) return response;
  const text = await response.text();
  let error: { code?: string; reason?: string; message?: string } = {};
  try {
    error = (JSON.parse(text) as { error: typeof error }).error;
  } catch {
    // Not an answer of the console.
  }
  const failure = new CallError(error.code ?? "UNKNOWN", error.reason ?? "", error.message ?? `HTTP status ${response.status}`);
  // An answer to a token that was replaced meanwhile says nothing about the new one.
  if (response.status === 401 && token !== null && token === sessionStorage.getItem(tokenName)) logOut(failure);
  throw failure;
}

// Makes a unary call. Numbers of 64 bits are strings in requests and in responses.
export async function call<Name extends keyof Calls>(name: Name, body: Calls[Name][0]): Promise<Calls[Name][1]> {
  const response = await request(`/api/duetime.v1.${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Duetime-Console": "1" },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Calls[Name][1];
}

export async function getAbout(): Promise<About> {
  return (await (await request("/console.json", {})).json()) as About;
}

export async function getMetrics(): Promise<string> {
  return await (await request("/metrics", {})).text();
}

// Of the server, or of one topic.
export async function getHistory(topic?: string): Promise<History> {
  const path = topic === undefined ? "/history.json" : `/history.json?${new URLSearchParams({ topic })}`;
  return (await (await request(path, {})).json()) as History;
}
