// SPDX-License-Identifier: Apache-2.0
//
// A program that makes and uses a client, and then forks.

import cluster from 'node:cluster';

import { Client } from '../src';

const client = new Client({ server: process.argv[2] });

async function main(): Promise<void> {
  await client.schedule({ topic: 't', delay: 0 });
  if (cluster.isPrimary) {
    await new Promise((resolve) => cluster.fork().on('exit', resolve));
    await client.schedule({ topic: 't', delay: 0 });
  }
  client.close();
  cluster.worker?.disconnect();
}

void main();
