// SPDX-License-Identifier: Apache-2.0
//
// The page's own addresses: "#/topic?name=orders". The part behind # never reaches a server.

import { useEffect, useState } from "preact/hooks";

export interface Route {
  page: string;
  params: Record<string, string>;
}

export function readRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { page: path === "" ? "overview" : path, params: Object.fromEntries(new URLSearchParams(query)) };
}

// The address of a page. Leaves out empty parameters.
export function href(page: string, params: Record<string, string | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
  const text = query.toString();
  return `#/${page}${text === "" ? "" : `?${text}`}`;
}

export function go(page: string, params: Record<string, string | undefined> = {}): void {
  location.hash = href(page, params);
}

// As `go`, in place of the address that is shown, so that typing leaves no trail behind.
export function replace(page: string, params: Record<string, string | undefined>): void {
  location.replace(href(page, params));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(readRoute(location.hash));
  useEffect(() => {
    const update = () => setRoute(readRoute(location.hash));
    addEventListener("hashchange", update);
    // The address may have changed since the first rendering.
    update();
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}
