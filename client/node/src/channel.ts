// SPDX-License-Identifier: Apache-2.0
//
// Opens connections. Internal to the library, except for its options.

import { type ChannelOptions, Client as GrpcClient, type ChannelCredentials, Metadata, credentials } from '@grpc/grpc-js';

import { DuetimeError } from './errors';
import { type Logger, textOf } from './log';

/** Certificates in PEM. */
export interface TlsOptions {
  /** The trusted authorities. Absent: those of Node.js. */
  ca?: Buffer | string;
  /** The client's own certificate and its key, for servers that ask for them: both or neither. */
  cert?: Buffer | string;
  key?: Buffer | string;
}

/** Where the server is, and how to talk to it. */
export interface ServerOptions {
  /**
   * "host:port" or "unix:/path/to.sock". Default: "127.0.0.1:7788". Several, "host:port,host:port", are the members of a cell: calls,
   * streams and subscribers go to the member that leads.
   */
  server?: string;
  /** The client uses TLS if this is set, also if it is empty. */
  tls?: TlsOptions;
  /** Sent with each call as "authorization: Bearer ...". Requires `tls`. A function is called for each call, or for the stream of calls. */
  token?: string | (() => string | Promise<string>);
  /**
   * Gets what subscribers and streams log: a connection that fails or is back, and callbacks that throw. Default: warnings and errors
   * go to `console`.
   */
  logger?: Logger;
}

export const DEFAULT_SERVER = '127.0.0.1:7788';

const CHANNEL_OPTIONS: ChannelOptions = {
  // No limit. The server's configuration sets the limits of messages and batches. A limit here would refuse answers and
  // deliveries that the server allows, and a refused delivery ends its stream each time.
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  // Backoff decides when to try, so these pauses are short beside its waits.
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // Finds a server that vanished during a call. The server allows a ping each 10 s.
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
  // Clients share no connection, so that two clients can use two cores of the server.
  'grpc.use_local_subchannel_pool': 1,
  // The proxy settings of the environment are meant for the web.
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
};

// Node.js trusts nobody, without a word, if an authority is no PEM, such as the name of a file.
function pemOf(name: string, text: Buffer | string | undefined): Buffer | null {
  if (text === undefined) return null;
  const pem = Buffer.from(text);
  if (!pem.includes('-----BEGIN ')) {
    throw new DuetimeError('INVALID_ARGUMENT', `tls.${name} is no PEM: it takes the content of a file`);
  }
  return pem;
}

/** The metadata of a call. Throws an Error, whatever the token's function throws. */
export async function metadataOf(token: string | (() => string | Promise<string>)): Promise<Metadata> {
  try {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${typeof token === 'string' ? token : await token()}`);
    return metadata;
  } catch (error) {
    throw new Error(`no token: ${textOf(error)}`, { cause: error });
  }
}

function credentialsOf({ tls, token }: ServerOptions): ChannelCredentials {
  if (tls === undefined) {
    if (token !== undefined) throw new DuetimeError('INVALID_ARGUMENT', 'a token needs TLS; plain text would reveal the token');
    return credentials.createInsecure();
  }
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new DuetimeError('INVALID_ARGUMENT', 'a TLS certificate and its key go together: one is missing');
  }
  const channel = credentials.createSsl(pemOf('ca', tls.ca), pemOf('key', tls.key), pemOf('cert', tls.cert));
  if (token === undefined) return channel;
  const sender = credentials.createFromMetadataGenerator((_, callback) => {
    metadataOf(token).then((metadata) => callback(null, metadata), (error: Error) => callback(error));
  });
  return credentials.combineChannelCredentials(channel, sender);
}

/** Returns at once. The first call connects, and later calls restore a broken connection. */
export function openChannel(options: ServerOptions, more: ChannelOptions = {}): GrpcClient {
  const server = options.server ?? DEFAULT_SERVER;
  if (server === '') throw new DuetimeError('INVALID_ARGUMENT', 'no server given: need host:port or unix:/path');
  try {
    return new GrpcClient(server, credentialsOf(options), { ...CHANNEL_OPTIONS, ...more });
  } catch (error) {
    if (error instanceof DuetimeError) throw error;
    throw new DuetimeError('INVALID_ARGUMENT', `cannot use the server or its certificates: ${String(error)}`, {}, { cause: error });
  }
}
