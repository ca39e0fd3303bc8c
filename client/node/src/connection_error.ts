// SPDX-License-Identifier: Apache-2.0

// What gRPC says if it has made no connection. A failure without a cause of its own has the time.
const NOT_CONNECTED = /No connection established\. Last error: (?:Error: )?(.*?)(?: \(\d{4}-\d\d-\d\dT\S+\))?\.?\s*(?:Resolution note: .*)?$/s;

function causeOf(text: string, tls: boolean): string {
  // What Node.js says if the first bytes of the server are no TLS.
  if (tls && /wrong version number|packet length too long/.test(text)) return 'this client uses TLS, and the server does not';
  if (!tls && (text === 'Failed to connect' || text === 'read ECONNRESET')) {
    return 'the server closed the connection before it answered, as a server with TLS does; this client uses no TLS';
  }
  if (!tls && text === 'Protocol error') return 'the answer of the server is no HTTP/2; perhaps it uses TLS, and this client does not';
  return text;
}

/** Returns the text of an error of gRPC. Names the address and the cause if there is no connection. Internal to the library. */
export function textOfConnectionError(text: string, address: string, tls: boolean): string {
  const cause = NOT_CONNECTED.exec(text)?.[1];
  return cause === undefined ? text : `${address}: ${causeOf(cause.trim(), tls)}`;
}
