// SPDX-License-Identifier: Apache-2.0
//
// The refusal of a member of a cell that does not lead.

import { Metadata, type ServiceError, status } from '@grpc/grpc-js';

import { codecOfName } from '../src/codec';

export function notLeader(): Partial<ServiceError> {
  const reason = codecOfName('google.rpc.ErrorInfo').encode({ reason: 'NOT_LEADER', metadata: {} });
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', codecOfName('google.rpc.Status').encode({
    details: [{ type_url: 'type.googleapis.com/google.rpc.ErrorInfo', value: reason }],
  }));
  return { code: status.UNAVAILABLE, details: 'standby', metadata };
}
