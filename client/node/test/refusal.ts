// SPDX-License-Identifier: Apache-2.0
//
// A refusal of a server, with its reason.

import { Metadata, type ServiceError, status } from '@grpc/grpc-js';

import { codecOfName } from '../src/codec';

export function refusal(reason: string, code = status.UNAVAILABLE): Partial<ServiceError> {
  const info = codecOfName('google.rpc.ErrorInfo').encode({ reason, metadata: {} });
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', codecOfName('google.rpc.Status').encode({
    details: [{ type_url: 'type.googleapis.com/google.rpc.ErrorInfo', value: info }],
  }));
  return { code, details: reason, metadata };
}
