// What a peer's handlers tell the harness: meter.py for Node.
//
// Node cannot map a file into memory, so the count is written a hundred times a second.

import fs from "node:fs";
import path from "node:path";

export const folder = process.env.COMPARE_FOLDER;
export const url = process.env.COMPARE_URL;

let counted = 0;
let written = 0;

/** Show the count of this process from now on. */
export function openMeter() {
  const file = fs.openSync(path.join(folder, `counts.${process.pid}`), "w");
  const cell = Buffer.alloc(8);
  setInterval(() => {
    if (counted === written) return;
    written = counted;
    cell.writeBigUInt64LE(BigInt(counted));
    fs.writeSync(file, cell, 0, 8, 0);
  }, 10);
}

/** So many jobs have run. */
export function count(jobs = 1) {
  counted += jobs;
}

/** A job has begun that carries the instant at which its submit was called. */
export function ping(submittedNs) {
  const wait = Buffer.alloc(8);
  wait.writeBigUInt64LE(process.hrtime.bigint() - BigInt(submittedNs));
  fs.appendFileSync(path.join(folder, "pings"), wait);
}

/** Note that the job has begun; the first time, never return. */
export async function hang() {
  const file = path.join(folder, "hangs");
  const isFirst = !fs.existsSync(file);
  fs.appendFileSync(file, `${process.pid} ${process.hrtime.bigint()}\n`);
  if (isFirst) await new Promise((resolve) => setTimeout(resolve, 600_000));
}
