// @ts-check
// Messages that mention the user. They are loaded once, and again when a message may be another one.

import { redraw, t } from "../ui/templates.js";
import { agentsByName } from "./agents.js";
import { get, withQuery } from "./api.js";
import { on } from "./events.js";
import { notifySystem } from "./notifications.js";
import { openQuestions } from "./questions.js";
import { readMarks } from "./read_marks.js";
import { me } from "./session.js";
import { soon } from "./soon.js";
import { threads } from "./threads.js";

export const mentions = {
  /** @type {import("./types.js").Mention[]} */
  list: [],
  isLoaded: false,
  error: /** @type {any} */ (null),
};

const isUnread = (mention) =>
  readMarks.has(mention.thread_id) ? mention.seq > readMarks.get(mention.thread_id) : !mention.is_read;

export const unreadMentions = () => mentions.list.filter(isUnread);

export async function loadMentions() {
  try {
    const known = new Set(mentions.list.map((mention) => mention.message_id));
    mentions.list = await get(withQuery("/api/mentions", { name: me.needsLogin ? undefined : me.name, limit: 100 }));
    const arrived = mentions.isLoaded ? mentions.list.filter((mention) => !known.has(mention.message_id)) : [];
    for (const mention of arrived) announce(mention);
    mentions.isLoaded = true;
    mentions.error = null;
  } catch (error) {
    mentions.error = error;
  }
  redraw();
}

function announce({ message_id, thread_id, author, topic, text }) {
  const title = t("{name} mentions you in {topic}", { name: author, topic });
  notifySystem(title, { body: text, tag: message_id, hash: `#/threads/${thread_id}?message=${message_id}` });
}

const reloadSoon = soon(loadMentions, 150);
on("msg.new", (message) => {
  const mayConcernMe = message.content.includes("@") || message.mentions?.length || message.reply_to_msg_id;
  if (mayConcernMe && message.author_name !== me.name) reloadSoon();
});
on("reset", loadMentions);

// The number on the icon of an installed console.
let badge = 0;
export function updateBadge() {
  const count = unreadMentions().length + openQuestions().length;
  if (count === badge) return;
  badge = count;
  const { setAppBadge } = /** @type {any} */ (navigator);
  setAppBadge?.call(navigator, count).catch(() => {});
}

// A name as it is written after an @, where it cannot have spaces.
export const nameInText = (name) => name.trim().replace(/[^\p{L}\p{N}_.-]+/gu, "-");

// People by the lower-case form of their name after an @: those who took part in the threads of the list, and the user.
// The map is made again when the list, the agents or the user's name have changed.
/** @type {Map<string, string>} */
let byName = new Map();
/** @type {unknown[]} */
let madeFrom = [];

function peopleByName() {
  const state = [threads.byId, threads.byId.size, agentsByName.size, me.name];
  if (state.some((value, i) => value !== madeFrom[i])) {
    const names = [...threads.byId.values()].flatMap((thread) => thread.participants);
    byName = new Map();
    for (const name of [me.name, ...names])
      if (!agentsByName.has(name.toLowerCase())) byName.set(nameInText(name).toLowerCase(), name);
    madeFrom = state;
  }
  return byName;
}

export const people = () => [...peopleByName().values()];
export const peopleCount = () => peopleByName().size;

// The person who is written like this after an @.
export const findPerson = (written) => peopleByName().get(written.toLowerCase());

on("msg.new", ({ author_name, author_id }) => {
  if (!author_id && !findPerson(nameInText(author_name))) madeFrom = []; // somebody new
});
