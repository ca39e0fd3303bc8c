// SPDX-License-Identifier: Apache-2.0
//
// Converts the library's messages to proto3 JSON with original field names, and back.

import * as protobuf from 'protobufjs/light';

import { DuetimeError } from '../src';

export type Json = Record<string, unknown>;

export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camel(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

// Converts each value of a field with `convert`.
function mapField(field: protobuf.Field, value: unknown, convert: (value: never) => unknown): unknown {
  if (field.map) return Object.fromEntries(Object.entries(value as Json).map(([key, item]) => [key, convert(item as never)]));
  return field.repeated ? (value as never[]).map(convert) : convert(value as never);
}

export function toJson(type: protobuf.Type, message: object): Json {
  const json: Json = {};
  for (const [name, value] of Object.entries(message)) {
    const field = type.fields[name];
    if (field !== undefined && value !== undefined) json[snake(name)] = mapField(field, value, valueToJson(field));
  }
  return json;
}

function valueToJson(field: protobuf.Field): (value: never) => unknown {
  const type = field.resolvedType;
  if (type?.fullName === '.google.protobuf.Timestamp') return (time: Date) => time.toISOString().replace('.000Z', 'Z');
  if (type?.fullName === '.google.protobuf.Duration') return (ms: number) => `${(ms / 1000).toFixed(6)}s`;
  if (type?.fullName === '.google.protobuf.FieldMask') return (paths: string[]) => paths.map(camel).join();
  if (type instanceof protobuf.Type) return (message: object) => toJson(type, message);
  return (value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
    return typeof value === 'bigint' ? String(value) : value;
  };
}

export function fromJson(type: protobuf.Type, json: Json): Json {
  const message: Json = {};
  for (const [name, value] of Object.entries(json)) {
    const field = type.fields[camel(name)];
    if (field === undefined) throw new Error(`${type.name} has no field ${name}`);
    message[field.name] = mapField(field, value, valueFromJson(field));
  }
  return message;
}

function valueFromJson(field: protobuf.Field): (value: never) => unknown {
  const type = field.resolvedType;
  if (type?.fullName === '.google.protobuf.Timestamp') return (text: string) => new Date(text);
  if (type?.fullName === '.google.protobuf.Duration') return (text: string) => parseFloat(text) * 1000;
  if (type?.fullName === '.google.protobuf.FieldMask') return (text: string) => text.split(',').map(snake);
  if (type instanceof protobuf.Type) return (json: Json) => fromJson(type, json);
  if (field.type === 'bytes') return (text: string) => Buffer.from(text, 'base64');
  if (field.type === 'int64') return (text: string | number) => BigInt(text);
  return (value: unknown) => value;
}

export function errorJson(error: unknown): Json {
  if (!(error instanceof DuetimeError)) {
    return { code: 'DRIVER', message: error instanceof Error ? error.stack : String(error) };
  }
  const { code, reason, message, metadata, fieldViolations, retryDelay } = error;
  return {
    code, reason, message, metadata, type: error.constructor.name,
    fields: fieldViolations.length > 0 ? fieldViolations.map(({ field }) => field) : undefined,
    retry_delay_ms: retryDelay,
  };
}
