// Compares a decoder with docs/vectors.json: `tsx vectors.mjs DECODER VECTORS`. A decoder exports some of the functions of
// docs/examples/javascript/ids.ts.

import assert from 'node:assert/strict';
import fs from 'node:fs';

const [decoder, vectors] = process.argv.slice(2);
const { timeOf, shardOf, seqOf, floorOf, shortcodeOf, idOf } = await import(decoder);
const { ids, other_codes, invalid_codes, invalid_ids, invalid_times } = JSON.parse(fs.readFileSync(vectors, 'utf8'));

for (const vector of ids) {
  const { id, epoch } = vector;
  const time = timeOf(id, epoch);
  assert.deepEqual({
    id,
    epoch,
    unix_ms: time.getTime(),
    time: time.toISOString(),
    shard: shardOf(id),
    seq: seqOf ? seqOf(id) : vector.seq,
    floor: floorOf(time, epoch),
    code: shortcodeOf ? shortcodeOf(id) : vector.code,
  }, vector);
  if (epoch === 1314220021721) assert.deepEqual(timeOf(id), time);
  if (idOf) assert.equal(idOf(vector.code), id);
}
console.log('ids:', ids.length);
if (!idOf) process.exit();
for (const { code, id } of other_codes) assert.equal(idOf(code), id);
for (const code of invalid_codes) assert.throws(() => idOf(code), RangeError, code);
for (const id of invalid_ids) {
  for (const decode of [timeOf, shardOf, seqOf, shortcodeOf]) assert.throws(() => decode(id), RangeError, id);
}
for (const { epoch, unix_ms } of invalid_times) assert.throws(() => floorOf(new Date(unix_ms), epoch), RangeError);
assert.throws(() => floorOf(new Date(NaN)), RangeError);
console.log('others:', other_codes.length + invalid_codes.length + invalid_ids.length + invalid_times.length);
