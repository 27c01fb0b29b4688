// A child in JavaScript (Node): it runs the task node.words. Nothing to install.
//
// One JSON line in, one JSON line out, one task at a time. Standard output belongs to the protocol, so console.log is
// pointed at standard error: what it prints lands in the worker's log, beside the task's id.
import { createInterface } from "node:readline";
import { writeSync } from "node:fs";

console.log = console.error;

class Invalid extends Error {}

const handlers = {
  "node.words": async (payload, order) => {
    if (typeof payload.text !== "string") throw new Invalid("text must be a string");
    if (payload.fail) {
      console.log("asked to fail");
      throw new Error("asked to fail");
    }
    const words = payload.text.split(/\s+/).filter(Boolean);
    return { words, count: words.length, attempt: order.attempt };
  },
};

async function answer(order) {
  const handler = handlers[order.task_type];
  if (!handler) return { success: false, error: `no handler for ${order.task_type}`, final: true };
  try {
    return { success: true, payload: await handler(order.payload, order) };
  } catch (error) {
    if (error instanceof Invalid) return { success: false, validation_failure_message: error.message }; // not retried
    return { success: false, error: error.message, error_detail: { traceback: error.stack } }; // retried by policy
  }
}

function send(message) {
  let rest = Buffer.from(JSON.stringify(message) + "\n");
  while (rest.length) rest = rest.subarray(writeSync(1, rest));
}

send({ v: 1 }); // ready

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.do === "stop") break;
  if (order.do !== "run") continue; // a cancel that came too late
  send({ v: 1, id: order.id, claim_no: order.claim_no, ...(await answer(order)) });
}
process.exit(0);
