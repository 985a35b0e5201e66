// Ids are 64 bits, numbers of JavaScript 53. So an id is a string wherever it passes by, and a BigInt to calculate.

const EPOCH = 1314220021721n; // 2011-08-24 21:07:01.721 UTC

export const shardOf = (id) => Number((BigInt(id) >> 10n) & 8191n); // id_shard(id)
export const timeOf = (id) => new Date(Number((BigInt(id) >> 23n) + EPOCH)); // id_time(id)

// What id_floor(time) says, for queries without the extension's functions.
export const floorOf = (date) => String((BigInt(date.getTime()) - EPOCH) << 23n);
