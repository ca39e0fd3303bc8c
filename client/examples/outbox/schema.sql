-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE IF NOT EXISTS orders (
  id       bigint PRIMARY KEY,
  customer text NOT NULL
);

-- Messages that duetime does not have yet.
CREATE TABLE IF NOT EXISTS outbox (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Belongs to the row, so that each attempt to relay the row is the same request.
  request_id   uuid NOT NULL DEFAULT gen_random_uuid(),
  topic        text NOT NULL,
  key          text NOT NULL,
  payload      text NOT NULL,
  -- A time, not a delay: a delay would begin when the row is relayed.
  deliver_time timestamptz NOT NULL,
  -- Why duetime refused the message for good. Such rows stay for a person to look at.
  refused      text
);
