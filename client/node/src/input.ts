// SPDX-License-Identifier: Apache-2.0

/**
 * What a caller passes for a message of the protos: every field may be left out, a number may stand for a bigint, and a string
 * (in UTF-8) or any bytes for a Buffer.
 */
export type Input<T> = T extends Buffer
  ? Uint8Array | string
  : T extends bigint
    ? bigint | number
    : T extends Date | string | number | boolean
      ? T
      : T extends (infer Item)[]
        ? readonly Input<Item>[]
        : { readonly [Key in keyof T]?: Input<T[Key]> };
