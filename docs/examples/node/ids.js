// Ids have 64 bits, numbers in JavaScript 53. So pass an id as a string, and calculate with a BigInt.

const EPOCH = 1314220021721; // 2011-08-24 21:07:01.721 UTC

export const shardOf = (id) => Number((BigInt(id) >> 10n) & 8191n); // id_shard(id)
export const timeOf = (id, epoch = EPOCH) => new Date(Number(BigInt.asUintN(64, BigInt(id)) >> 23n) + epoch); // id_time(id)

// id_floor(time), for queries without the functions of the extension.
export const floorOf = (date, epoch = EPOCH) => String(BigInt.asIntN(64, BigInt(date.getTime() - epoch) << 23n));
