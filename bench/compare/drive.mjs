// The producer's side of every Node peer: drive.py for Node.
//
//   node peers/<name>.mjs setup | one SECONDS MOST | bulk JOBS | ping TIMES PAUSE | hang | work
//
// A peer's producer has the methods open, setup, one(task, text), many(jobs) and close, and
// says in `bulk` how many jobs one call takes. Prints one line of JSON.

import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { folder } from "./meter.mjs";

export const TEXT = "x".repeat(100);
const WARM_UP = 20;
const LOST_MS = 15_000;
const PING_MS = 25_000;
const LOOK_MS = 2;

export async function drive(producer, work) {
  const [role, ...rest] = process.argv.slice(2);
  if (role === "work") return await work();
  const numbers = rest.map(Number);
  const roles = {
    setup: () => producer.setup(),
    one: () => one(producer, ...numbers),
    bulk: () => bulk(producer, numbers[0]),
    ping: () => pings(producer, numbers[0], numbers[1]),
    hang: () => producer.one("hang", ""),
  };
  await producer.open();
  const found = await roles[role]();
  await producer.close();
  fs.writeSync(1, JSON.stringify(found ?? null) + "\n");
  process.exit(0);
}

async function one(producer, seconds, most) {
  for (let i = 0; i < WARM_UP; i++) await producer.one("noop", TEXT);
  const clock = started();
  let jobs = 0;
  while (jobs < most && clock.seconds() < seconds) {
    await producer.one("noop", TEXT);
    jobs++;
  }
  return { ...clock.figures(jobs), submitted: jobs + WARM_UP };
}

async function bulk(producer, jobs) {
  const clock = started();
  for (let start = 0; start < jobs; start += producer.bulk) {
    await producer.many(Math.min(producer.bulk, jobs - start));
  }
  return { ...clock.figures(jobs), submitted: jobs };
}

function started() {
  const began = process.hrtime.bigint();
  const used = process.cpuUsage();
  const seconds = () => Number(process.hrtime.bigint() - began) / 1e9;
  const figures = (jobs) => {
    const cpu = process.cpuUsage(used);
    return { jobs, seconds: seconds(), cpu_seconds: (cpu.user + cpu.system) / 1e6 };
  };
  return { seconds, figures };
}

/** One job at a time into an idle queue; the next after the last has begun, and a while. */
async function pings(producer, times, pause) {
  const file = path.join(folder, "pings");
  fs.closeSync(fs.openSync(file, "a"));
  const enough = Date.now() + PING_MS;
  for (let number = 0; number < times; number++) {
    if (Date.now() > enough) return { pings: number };
    await producer.one("ping", String(process.hrtime.bigint()));
    const deadline = Date.now() + LOST_MS;
    while (fs.statSync(file).size <= number * 8) {
      if (Date.now() > deadline) return { lost_after: number };
      await sleep(LOOK_MS);
    }
    await sleep(10 + Math.random() * (pause * 1000 - 10));
  }
  return { pings: times };
}
