// SPDX-License-Identifier: Apache-2.0

import { type DuetimeError, errorOfItem } from './errors';
import type { ScheduleResponse, ScheduleResult } from './types';

/** The result of one message of a batch or a stream: what `schedule` returns for this message alone, or the error that it throws. */
export type ScheduleItemResult = ScheduleResponse | DuetimeError;

export function responseOf({ message, error, ...rest }: ScheduleResult): ScheduleItemResult {
  return message === undefined ? errorOfItem(error) : { message, ...rest };
}
