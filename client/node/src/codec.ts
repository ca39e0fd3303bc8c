// SPDX-License-Identifier: Apache-2.0
//
// Converts the messages of types.ts to the bytes of Protobuf and back. Internal to the library.

import * as protobuf from 'protobufjs/light';

import protos from './protos.json';
import type { Calls } from './types';

const root = protobuf.Root.fromJSON(protos as protobuf.INamespace);
root.resolveAll();

const BIG_INTEGERS = new Set(['int64', 'uint64', 'sint64', 'fixed64', 'sfixed64']);
const NANOS_PER_MS = 1_000_000;
const SECONDS_MAX = '9223372036854775807';

type Plain = Record<string, unknown>;
type Convert = (value: never, path: string) => unknown;

// A 64-bit integer as protobufjs decodes it: an object of the package `long`.
type WireInteger = object | number;

interface FieldCodec {
  name: string;
  kind: 'single' | 'repeated' | 'map';
  // The value of an absent field: that of proto3, or undefined if the field knows if it is set.
  absent: unknown;
  toWire: Convert;
  fromWire: Convert;
}

/** Converts one type of message. */
export class MessageCodec<T> {
  private fields: FieldCodec[] | undefined;
  private byName: Map<string, FieldCodec> | undefined;

  constructor(readonly type: protobuf.Type) {}

  /** Throws a TypeError that names the field, if a value is not of the field's type or the message has no such field. */
  encode(message: object): Buffer {
    return Buffer.from(this.type.encode(this.toWire(message as Plain, this.type.name) as Plain).finish());
  }

  decode(bytes: Uint8Array): T {
    return this.fromWire(this.type.decode(bytes) as unknown as Plain) as T;
  }

  toWire(message: Plain, path: string): Plain {
    if (typeof message !== 'object') throw new TypeError(`${path} is no object`);
    this.load();
    const wire: Plain = {};
    for (const [name, value] of Object.entries(message)) {
      if (value === undefined || value === null) continue;
      const field = this.byName!.get(name);
      if (field === undefined) throw new TypeError(`${this.type.name} has no field ${name}`);
      wire[name] = convertField(field, field.toWire, value, `${path}.${name}`);
    }
    return wire;
  }

  fromWire(wire: Plain): Plain {
    this.load();
    const message: Plain = {};
    for (const field of this.fields!) {
      const { name } = field;
      if (Object.prototype.hasOwnProperty.call(wire, name)) message[name] = convertField(field, field.fromWire, wire[name], name);
      else if (field.kind === 'repeated') message[name] = [];
      else if (field.kind === 'map') message[name] = {};
      else if (field.absent !== undefined) message[name] = field.absent;
    }
    return message;
  }

  // The codecs of the fields, made at the first use, because types refer to each other.
  private load(): void {
    if (this.fields !== undefined) return;
    this.fields = this.type.fieldsArray.map(fieldCodec);
    this.byName = new Map(this.fields.map((field) => [field.name, field]));
  }
}

function convertField(field: FieldCodec, convert: Convert, value: unknown, path: string): unknown {
  if (field.kind === 'single') return convert(value as never, path);
  if (field.kind === 'repeated') {
    if (!Array.isArray(value)) throw new TypeError(`${path} is no array`);
    return value.map((item, index) => convert(item as never, `${path}[${index}]`));
  }
  if (typeof value !== 'object') throw new TypeError(`${path} is no object`);
  return Object.fromEntries(Object.entries(value as Plain).map(([key, item]) => [key, convert(item as never, `${path}.${key}`)]));
}

function fieldCodec(field: protobuf.Field): FieldCodec {
  const kind = field.map ? 'map' : field.repeated ? 'repeated' : 'single';
  const make = (absent: unknown, toWire: Convert, fromWire: Convert): FieldCodec => ({
    name: field.name, kind, absent: field.partOf ? undefined : absent, toWire, fromWire,
  });
  const resolved = field.resolvedType;
  if (resolved instanceof protobuf.Enum) return make(resolved.valuesById[0], enumToWire(resolved), enumFromWire(resolved));
  if (resolved instanceof protobuf.Type) {
    if (resolved.fullName === '.google.protobuf.Timestamp') return make(undefined, timeToWire, timeFromWire);
    if (resolved.fullName === '.google.protobuf.Duration') return make(undefined, durationToWire, durationFromWire);
    if (resolved.fullName === '.google.protobuf.FieldMask') return make(undefined, maskToWire, maskFromWire);
    const codec = codecOf(resolved);
    return make(undefined, (value: Plain, path) => codec.toWire(value, path), (wire: Plain) => codec.fromWire(wire));
  }
  if (BIG_INTEGERS.has(field.type)) return make(0n, bigintToWire, bigintFromWire);
  switch (field.type) {
    case 'bytes':
      return make(Buffer.alloc(0), bytesToWire, (wire: Uint8Array) => Buffer.from(wire.buffer, wire.byteOffset, wire.length));
    case 'string':
      return make('', checked('string'), same);
    case 'bool':
      return make(false, checked('boolean'), same);
    case 'double':
    case 'float':
      return make(0, checked('number'), same);
    default:
      return make(0, integerToWire, same);
  }
}

const same: Convert = (value) => value;

function checked(type: string): Convert {
  return (value: unknown, path) => {
    if (typeof value !== type) throw new TypeError(`${path} is no ${type}`);
    return value;
  };
}

const integerToWire: Convert = (value: unknown, path) => {
  if (!Number.isInteger(value)) throw new TypeError(`${path} is no integer`);
  return value;
};

const bigintToWire: Convert = (value: unknown, path) => {
  if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) throw new TypeError(`${path} is no bigint and no safe integer`);
  const big = BigInt(value as bigint | number);
  if (BigInt.asIntN(64, big) !== big) throw new TypeError(`${path} does not fit into 64 bits`);
  return String(big);
};

const bigintFromWire: Convert = (wire: WireInteger) => BigInt(wire.toString());

const bytesToWire: Convert = (value: unknown, path) => {
  if (typeof value === 'string') return Buffer.from(value);
  if (!(value instanceof Uint8Array)) throw new TypeError(`${path} is no Uint8Array and no string`);
  return value;
};

function enumToWire(type: protobuf.Enum): Convert {
  return (value: unknown, path) => {
    const number = typeof value === 'string' ? type.values[value] : value;
    if (!Number.isInteger(number)) throw new TypeError(`${path} is no value of ${type.name}: ${String(value)}`);
    return number;
  };
}

function enumFromWire(type: protobuf.Enum): Convert {
  return (wire: number) => type.valuesById[wire] ?? wire;
}

const timeToWire: Convert = (value: unknown, path) => {
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) throw new TypeError(`${path} is no valid Date`);
  const seconds = Math.floor(value.getTime() / 1000);
  return { seconds: seconds, nanos: (value.getTime() - seconds * 1000) * NANOS_PER_MS };
};

const timeFromWire: Convert = (wire: { seconds: WireInteger; nanos: number }) =>
  new Date(Number(wire.seconds) * 1000 + Math.floor(wire.nanos / NANOS_PER_MS));

// Rounds up to nanoseconds, so that no message is early. An infinite duration becomes the longest one, which the server refuses.
const durationToWire: Convert = (value: unknown, path) => {
  if (typeof value !== 'number' || Number.isNaN(value)) throw new TypeError(`${path} is no number of milliseconds`);
  let seconds = Math.trunc(value / 1000);
  if (!Number.isSafeInteger(seconds)) return { seconds: value > 0 ? SECONDS_MAX : `-${SECONDS_MAX}`, nanos: 0 };
  let nanos = Math.ceil((value - seconds * 1000) * NANOS_PER_MS);
  if (nanos === 1000 * NANOS_PER_MS) [seconds, nanos] = [seconds + 1, 0];
  return { seconds: seconds, nanos };
};

const durationFromWire: Convert = (wire: { seconds: WireInteger; nanos: number }) =>
  Number(wire.seconds) * 1000 + wire.nanos / NANOS_PER_MS;

const maskToWire: Convert = (value: unknown, path) => {
  if (!Array.isArray(value)) throw new TypeError(`${path} is no list of paths`);
  return { paths: value.map((item, index) => checked('string')(item as never, `${path}[${index}]`)) };
};

const maskFromWire: Convert = (wire: { paths: string[] }) => [...wire.paths];

const codecs = new Map<protobuf.Type, MessageCodec<unknown>>();

function codecOf<T>(type: protobuf.Type): MessageCodec<T> {
  let codec = codecs.get(type);
  if (codec === undefined) codecs.set(type, (codec = new MessageCodec(type)));
  return codec as MessageCodec<T>;
}

/** The codec of a type, for example of "google.rpc.Status". */
export function codecOfName<T>(name: string): MessageCodec<T> {
  return codecOf(root.lookupType(name));
}

/** How to call an RPC. */
export interface Rpc<Name extends keyof Calls> {
  path: string;
  /** The option `repeat` of the method (call.proto). */
  repeat: string;
  request: MessageCodec<Calls[Name]['request']>;
  response: MessageCodec<Calls[Name]['response']>;
}

const SERVICES = ['duetime.v1.Messages', 'duetime.v1.Admin', 'duetime.v1.TestClock'];
/** The calls of the service Admin. That of a list has the field of its response that holds the items. */
export const ADMIN_CALLS = root.lookupService('duetime.v1.Admin').methodsArray.map((method) => {
  const fields = method.resolvedResponseType!.fieldsArray;
  const list = fields.some(({ name }) => name === 'nextPageToken');
  return { name: method.name as keyof Calls, items: list ? fields.find(({ repeated }) => repeated)!.name : undefined };
});

const rpcs = new Map(SERVICES.flatMap((name) => root.lookupService(name).methodsArray.map((method) => [method.name, method])));

export function rpcOf<Name extends keyof Calls>(name: Name): Rpc<Name> {
  const method = rpcs.get(name)!;
  return {
    path: `/${method.parent!.fullName.slice(1)}/${name}`,
    repeat: method.options!['(call).repeat'] as string,
    request: codecOf(method.resolvedRequestType!),
    response: codecOf(method.resolvedResponseType!),
  };
}
