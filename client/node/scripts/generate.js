// SPDX-License-Identifier: Apache-2.0
//
// Makes src/protos.json (the descriptors that the library loads) and src/types.ts (an interface for each message of the
// protos, with its comments) from ../../proto.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const protobuf = require('protobufjs');

const PROTOS = path.join(__dirname, '../../../proto');
const SOURCES = path.join(__dirname, '../src');
const OWN = fs.readdirSync(path.join(PROTOS, 'duetime/v1')).filter((name) => name.endsWith('.proto')).sort();
const DESCRIPTOR = 'google/protobuf/descriptor.proto';
const BIG_INTEGERS = new Set(['int64', 'uint64', 'sint64', 'fixed64', 'sfixed64']);
const WELL_KNOWN = {
  '.google.protobuf.Timestamp': 'Date',
  '.google.protobuf.Duration': 'number',
  '.google.protobuf.FieldMask': 'string[]',
};

function load(files, options) {
  const root = new protobuf.Root();
  root.resolvePath = (_, target) => {
    if (target === DESCRIPTOR) return require.resolve(`protobufjs/${DESCRIPTOR}`);
    if (protobuf.common.get(target)) return target;
    const found = [PROTOS, path.join(PROTOS, 'third_party')].map((folder) => path.join(folder, target)).find(fs.existsSync);
    return found ?? null;
  };
  root.loadSync(files, options).resolveAll();
  // The library reads the options of methods as texts, and needs no types for them.
  for (const namespace of ['google.protobuf', 'duetime.v1'].map((name) => root.lookup(name))) {
    const ofOptions = namespace.nestedArray.filter((member) => /(descriptor|call)\.proto$/.test(member.filename));
    ofOptions.forEach((member) => namespace.remove(member));
  }
  return root;
}

function comment(text, indent) {
  if (!text) return '';
  const lines = text.trim().split('\n').map((line) => line.trim().replaceAll('*/', '*\\/'));
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

// Message.State becomes MessageState.
function nameOf(type) {
  return type.fullName.replace('.duetime.v1.', '').replaceAll('.', '');
}

function typeOf(field) {
  const resolved = field.resolvedType;
  if (resolved) return WELL_KNOWN[resolved.fullName] ?? nameOf(resolved);
  if (BIG_INTEGERS.has(field.type)) return 'bigint';
  return { bool: 'boolean', string: 'string', bytes: 'Buffer' }[field.type] ?? 'number';
}

function fieldLine(field) {
  let type = typeOf(field);
  if (field.map) type = `Record<string, ${type}>`;
  else if (field.repeated) type = `${type}[]`;
  const mayBeAbsent = !field.map && !field.repeated && (field.resolvedType instanceof protobuf.Type || field.partOf);
  return `${comment(field.comment, '  ')}  ${field.name}${mayBeAbsent ? '?' : ''}: ${type};\n`;
}

function messageText(type) {
  return `${comment(type.comment, '')}export interface ${nameOf(type)} {\n${type.fieldsArray.map(fieldLine).join('')}}\n\n`;
}

function enumText(type) {
  const values = Object.keys(type.values).map((name) => `${comment(type.comments[name], '  ')}  | '${name}'`);
  return `${comment(type.comment, '')}export type ${nameOf(type)} =\n${values.join('\n')};\n\n`;
}

function textOf(namespace) {
  let text = '';
  for (const member of namespace.nestedArray) {
    if (member instanceof protobuf.Enum) text += enumText(member);
    if (member instanceof protobuf.Type) text += messageText(member) + textOf(member);
  }
  return text;
}

function callsText(root) {
  const methods = ['Messages', 'Admin', 'TestClock'].flatMap((name) => root.lookupService(`duetime.v1.${name}`).methodsArray);
  const lines = methods.map((method) => `  ${method.name}: { request: ${method.requestType}; response: ${method.responseType} };\n`);
  return `/** The RPCs, by their names. */\nexport interface Calls {\n${lines.join('')}}\n`;
}

function listedField(method) {
  const fields = method.resolvedResponseType.fieldsArray;
  return fields.some(({ name }) => name === 'nextPageToken') ? fields.find(({ repeated }) => repeated) : undefined;
}

function adminText(root) {
  const lines = root.lookupService('duetime.v1.Admin').methodsArray.map((method) => {
    const listed = listedField(method);
    const mayBeAbsent = listed || method.resolvedRequestType.fieldsArray.length === 0;
    const result = listed ? `List<${typeOf(listed)}>` : `Promise<${method.responseType}>`;
    const name = method.name[0].toLowerCase() + method.name.slice(1);
    return `${comment(method.comment, '  ')}  ${name}(request${mayBeAbsent ? '?' : ''}: Input<${method.requestType}>, options?: CallOptions): ${result};\n`;
  });
  return `/** The calls of the service Admin. A list is read over all pages. */\nexport interface AdminCalls {\n${lines.join('')}}\n\n`;
}

const documented = load(OWN.map((name) => `duetime/v1/${name}`), { alternateCommentMode: true });
fs.writeFileSync(path.join(SOURCES, 'types.ts'), `// SPDX-License-Identifier: Apache-2.0
//
// The messages of the protos. Made by scripts/generate.js; do not edit.
//
// Times are Dates, durations are numbers of milliseconds, 64-bit integers are bigints, bytes are Buffers, field masks are lists of
// paths, and a value of an enum is its name. A value that this version does not know is its number.

import type { CallOptions } from './caller';
import type { Input } from './input';
import type { List } from './list';

${textOf(documented.lookup('duetime.v1'))}${adminText(documented)}${callsText(documented)}`);

const files = [...OWN.map((name) => `duetime/v1/${name}`), 'google/rpc/status.proto', 'google/rpc/error_details.proto'];
fs.writeFileSync(path.join(SOURCES, 'protos.json'), JSON.stringify(load(files, {}).toJSON()));
