// An id is 41 bits of milliseconds since the epoch, 13 bits of shard and 10 bits of sequence. A number in JavaScript has
// 53 bits, so ids are strings, and the arithmetic uses BigInt.

export type Id = string | bigint;

export const EPOCH = 1314220021721; // 2011-08-24 21:07:01.721 UTC. A shard can have another epoch.
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

function bitsOf(id: Id): bigint {
  const value = /^-?\d+$/.test(String(id)) ? BigInt(id) : undefined;
  if (value === undefined || BigInt.asIntN(64, value) !== value) throw new RangeError(`not an id: ${id}`);
  return BigInt.asUintN(64, value);
}

export const timeOf = (id: Id, epoch = EPOCH) => new Date(Number(bitsOf(id) >> 23n) + epoch); // id_time(id, epoch)
export const shardOf = (id: Id) => Number((bitsOf(id) >> 10n) & 8191n); // id_shard(id)
export const seqOf = (id: Id) => Number(bitsOf(id) & 1023n); // id_seq(id)

// The smallest id of a time, id_floor(time, epoch): the ids of a day are id >= floorOf(day) and id < floorOf(next).
export function floorOf(time: Date, epoch = EPOCH): string {
  const ms = time.getTime() - epoch;
  if (!(0 <= ms && ms < 2 ** 41)) throw new RangeError(`time ${time.getTime()} is out of range for the epoch`);
  return BigInt.asIntN(64, BigInt(ms) << 23n).toString();
}

// id_to_shortcode(id)
export function shortcodeOf(id: Id): string {
  const digit = (bits: bigint) => DIGITS[Number(bits & 63n)];
  let bits = bitsOf(id);
  let code = digit(bits);
  while ((bits >>= 6n)) code = digit(bits) + code;
  return code;
}

// shortcode_to_id(code)
export function idOf(code: string): string {
  const bits = [...code].reduce((bits, digit) => (bits << 6n) | BigInt(DIGITS.indexOf(digit)), 0n);
  if (!/^[\w-]+$/.test(code) || bits >= 2n ** 64n) throw new RangeError(`not a short code: ${code}`);
  return BigInt.asIntN(64, bits).toString();
}
