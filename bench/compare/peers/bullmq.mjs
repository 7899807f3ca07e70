// BullMQ on Valkey.
//
// Settings: https://docs.bullmq.io/guide/parallelism-and-concurrency (a concurrency of 100 to
// 300), https://docs.bullmq.io/guide/queues/adding-bulks (addBulk) and
// https://docs.bullmq.io/guide/queues/auto-removal-of-jobs (removeOnComplete); two processes.

import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { TEXT, drive } from "../drive.mjs";
import { count, hang, openMeter, ping, url } from "../meter.mjs";

const CONCURRENCY = 200;
const NAME = "compare";
const options = { removeOnComplete: true };

const producer = {
  bulk: 1_000,
  async open() {
    this.connection = new Redis(url, { maxRetriesPerRequest: null });
    this.queue = new Queue(NAME, { connection: this.connection, defaultJobOptions: options });
    await this.queue.waitUntilReady();
  },
  async setup() {},
  async one(task, text) {
    await this.queue.add(task, { text });
  },
  async many(jobs) {
    const job = { name: "noop", data: { text: TEXT } };
    await this.queue.addBulk(Array.from({ length: jobs }, () => job));
  },
  async close() {
    await this.queue.close();
    this.connection.disconnect();
  },
};

async function work() {
  openMeter();
  const tasks = { noop: () => count(), ping: (data) => ping(data.text), hang: () => hang() };
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  new Worker(NAME, async (job) => tasks[job.name](job.data), {
    connection,
    concurrency: CONCURRENCY,
  });
}

await drive(producer, work);
