// Written by 'palaver setup'. It is replaced when setup runs again.
//
// palaver in opencode: a session gets a briefing, each prompt gets the messages to the agent, and the session is
// recorded when it is compacted or ends. A message to an idle session begins a turn in it. An edit is stopped once if
// another agent edits the same file. All of it is done by 'palaver hook'. Whatever goes wrong there, opencode goes on
// without it; 'palaver doctor' shows the last problem.

import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

const COMMAND = "palaver";
/** @type {string[]} */
const OPTIONS = [];
const WAKES = true;
const MILLISECONDS = 5000;
const ASKS_PERMISSION = false;
const PROMPT_MILLISECONDS = 300; // opencode without a person answers its requests itself, at once

const EDIT_TOOLS = ["edit", "multiedit", "write", "patch", "apply_patch"];

/**
 * Run 'palaver hook' until it is aborted.
 * @param {string} event
 * @param {object} told
 * @param {AbortSignal} signal
 * @returns {Promise<{text?: string, decision?: string, reason?: string}>}
 */
function run(event, told, signal) {
  return new Promise((done) => {
    const child = spawn(COMMAND, ["hook", event, "--client", "opencode", ...OPTIONS], {
      stdio: ["pipe", "pipe", "ignore"],
      signal,
      killSignal: "SIGKILL",
    });
    let said = "";
    const end = () => {
      try {
        done(JSON.parse(said));
      } catch {
        done({});
      }
    };
    child.on("error", end);
    child.on("close", end);
    child.stdin.on("error", () => {});
    child.stdout.on("data", (part) => {
      said += part;
    });
    child.stdin.end(JSON.stringify(told));
  });
}

/**
 * The text for the model, or "".
 * @type {(event: string, told: object, signal?: AbortSignal) => Promise<string>}
 */
const ask = async (event, told, signal = AbortSignal.timeout(MILLISECONDS)) =>
  (await run(event, told, signal)).text || "";

/**
 * A hook that never fails.
 * @param {(input: any, output: any) => Promise<void>} hook
 */
const safe = (hook) => async (/** @type {any} */ input, /** @type {any} */ output) => {
  try {
    await hook(input, output);
  } catch {
    // opencode must go on
  }
};

/** @param {any} input */
export const PalaverPlugin = async ({ client, directory }) => {
  const data = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode");
  const database = resolve(data, process.env.OPENCODE_DB || "opencode.db");
  const created = new Set();
  /** The sessions that work in this process, with the agent and model of the last prompt. Those of subagents are null. */
  const sessions = new Map();
  /** Sessions whose summary is being written. */
  const compacting = new Set();
  /** The briefings of compacted sessions that no prompt has carried yet. */
  const briefings = new Map();

  /** The sessions that wait for a message, and what ends that. */
  const waiting = new Set();
  const ended = new AbortController();

  const tell = (/** @type {string} */ event, /** @type {string} */ id, more = {}) =>
    ask(event, { session_id: id, cwd: directory, transcript_path: database, ...more });

  const goOn = async (/** @type {string} */ id, /** @type {string} */ text) => {
    const parts = [{ type: "text", text, synthetic: true }];
    if (text) await client.session.promptAsync({ path: { id }, body: { ...sessions.get(id), parts } });
  };

  const wait = safe(async (/** @type {string} */ id) => {
    // 'opencode run' ends when it is idle.
    if (!WAKES || process.argv.includes("run") || !sessions.get(id) || waiting.has(id)) return;
    waiting.add(id);
    const text = await ask("wait", { session_id: id, cwd: directory }, ended.signal);
    waiting.delete(id);
    if (sessions.get(id)) await goOn(id, text);
  });

  const brief = (/** @type {string} */ id) => {
    if (sessions.get(id) && !briefings.has(id)) briefings.set(id, tell("session-start", id, { source: "compact" }));
  };

  const end = async (/** @type {string} */ id) => {
    const isOurs = sessions.get(id);
    sessions.delete(id);
    if (isOurs) await tell("session-end", id);
  };

  /** What ends the requests for permission that a person is asked about, by their ids. */
  const asking = new Map();

  const askPermission = async (/** @type {any} */ { id, sessionID, permission, patterns, metadata }) => {
    const end = new AbortController();
    asking.set(id, end);
    await new Promise((done) => setTimeout(done, PROMPT_MILLISECONDS));
    const tool_input = permission === "bash" && metadata.command ? metadata : { patterns, ...metadata };
    const told = {
      session_id: ours(sessionID),
      cwd: directory,
      tool_name: permission,
      tool_input,
    };
    const said = asking.has(id) ? await run("permission", told, end.signal) : {};
    if (!asking.delete(id) || !said.decision) return;
    const body = said.decision === "allow" ? { reply: "once" } : { reply: "reject", message: said.reason };
    const headers = { "Content-Type": "application/json" };
    await client._client.post({ url: "/permission/{requestID}/reply", path: { requestID: id }, body, headers });
  };

  const ours = (/** @type {string} */ id) =>
    // subagents work in the name of their session
    sessions.get(id) ? id : [...sessions.keys()].find((known) => sessions.get(known));

  const endAsking = (/** @type {string} */ id) => {
    asking.get(id)?.abort();
    asking.delete(id);
  };

  return {
    event: safe(async ({ event }) => {
      if (event.type === "permission.asked" && ASKS_PERMISSION) askPermission(event.properties).catch(() => {});
      if (event.type === "permission.replied") endAsking(event.properties.requestID);
      const id = event.properties?.sessionID || event.properties?.info?.id;
      if (event.type === "session.created") created.add(id);
      if (event.type === "session.compacted") brief(id);
      if (event.type === "session.deleted") await end(id);
      if (event.type === "session.idle") wait(id);
    }),

    "chat.message": safe(async ({ sessionID: id }, { message, parts }) => {
      const typed = parts.filter((/** @type {any} */ part) => part.type === "text" && !part.synthetic);
      if (!typed.length) return;
      const isNew = !sessions.has(id);
      if (isNew && (await client.session.get({ path: { id } })).data?.parentID) sessions.set(id, null);
      if (sessions.get(id) === null) return;
      sessions.set(id, { agent: message.agent, model: message.model });
      const texts = [];
      if (isNew) texts.push(await tell("session-start", id, { source: created.has(id) ? "startup" : "resume" }));
      texts.push(await briefings.get(id));
      briefings.delete(id);
      const prompt = typed.map((/** @type {any} */ part) => part.text).join("\n");
      texts.push(await tell("prompt", id, { prompt }));
      const text = texts.filter(Boolean).join("\n\n");
      const last = parts[parts.length - 1]; // parts are sorted by their ids
      if (text)
        parts.push({ ...typed[0], id: `${last.id}p`, text, synthetic: true, time: undefined, metadata: undefined });
    }),

    // opencode goes on when a prompt was added before its answer is complete.
    "experimental.text.complete": safe(async ({ sessionID: id }) => {
      if (compacting.delete(id) || !sessions.get(id)) return;
      await goOn(id, await tell("stop", id));
    }),

    "experimental.session.compacting": safe(async ({ sessionID: id }, { context }) => {
      compacting.add(id);
      const text = await tell("pre-compact", id);
      if (text) context.push(text);
    }),

    "experimental.compaction.autocontinue": safe(async ({ sessionID: id }) => brief(id)),

    "experimental.chat.system.transform": safe(async ({ sessionID: id }, { system }) => {
      const text = await briefings.get(id);
      if (text) system.push(text);
    }),

    "tool.execute.before": async ({ tool, sessionID }, { args }) => {
      if (!EDIT_TOOLS.includes(tool)) return;
      const told = { session_id: ours(sessionID), cwd: directory, tool_name: tool, tool_input: args };
      const text = await ask("edit", told).catch(() => "");
      if (text) throw new Error(text); // opencode shows it to the model instead of the edit
    },

    "tool.execute.after": safe(async ({ tool, sessionID: id }, result) => {
      const code = result.metadata?.exit;
      if (tool !== "bash" || !code) return;
      const error = `${result.output}\nExit code ${code}`;
      const text = await ask("failure", { session_id: ours(id), cwd: directory, tool_name: tool, error });
      if (text) result.output += `\n\n${text}`;
    }),

    dispose: safe(async () => {
      ended.abort();
      [...asking.keys()].forEach(endAsking);
      await Promise.all([...sessions.keys()].map(end));
    }),
  };
};
