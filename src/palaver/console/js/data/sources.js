// @ts-check
// The sources of documents: one row each, in the order in which search offers them. To add a source, add a row here and an
// entry to views/reader_sources.js.

import { plainTitle, plural, projectName } from "../ui/format.js";
import { displayNameOf } from "./agents.js";

export const LIBRARY_PAGE = 60;

/**
 * @typedef {object} Card What the library shows of a document.
 * @property {string | number} id
 * @property {string} title
 * @property {string} [text]
 * @property {string} [kind]
 * @property {string[]} [tags]
 * @property {string} [when]
 * @property {string} [avatar] The name whose avatar is shown instead of the icon.
 * @property {boolean} [isAgent]
 * @property {object} [loc]
 */

/**
 * @typedef {object} Source
 * @property {string} label The name of the source, in the plural where it has one.
 * @property {string} singular
 * @property {string} icon
 * @property {boolean} [hasMessages] Does the overview count its messages?
 * @property {string[]} [roles] The roles by which the search can be limited.
 * @property {string} [kindInImports] The kind in the result of an import.
 * @property {boolean} [isWritten] Are its documents written in the console?
 * @property {string} [path] The path of its documents, where they can be created or deleted.
 * @property {{about: string, card: (document: any) => Card}} [library] The card of a document as /api/library lists it.
 */

/** @type {Record<string, Source>} */
export const SOURCES = {
  bus: {
    label: "Threads",
    singular: "Thread",
    icon: "threads",
    hasMessages: true,
  },
  sessions: {
    label: "Sessions",
    singular: "Session",
    icon: "sessions",
    hasMessages: true,
    roles: ["user", "assistant", "tool", "system"],
    library: {
      about: "Coding sessions of agents, turn by turn.",
      card: (one) => ({
        id: `${one.agent_id}/${one.session_id}`,
        title: plainTitle(one.title) || one.session_id,
        kind: [one.project && projectName(one.project), plural(one.messages, "turn")].filter(Boolean).join(" · "),
        when: one.changed_at,
        loc: { agent_id: one.agent_id, session_id: one.session_id },
        avatar: displayNameOf(one.origin),
        isAgent: true,
      }),
    },
  },
  archive: {
    label: "Imported chats",
    singular: "Imported chat",
    icon: "archive",
    hasMessages: true,
    roles: ["user", "assistant", "tool"],
    kindInImports: "conversations",
    library: {
      about: "Conversations imported from ChatGPT, Claude, Cursor and other tools.",
      card: (one) => ({
        id: one.id,
        title: one.title,
        kind: [one.origin, one.project && projectName(one.project), plural(one.messages, "message")]
          .filter(Boolean)
          .join(" · "),
        when: one.changed_at,
      }),
    },
  },
  notes: {
    label: "Notes",
    singular: "Note",
    icon: "note",
    kindInImports: "notes",
    isWritten: true,
    path: "/api/notes",
    library: {
      about: "Notes for you and your agents.",
      card: (one) => ({
        id: one.id,
        title: one.title,
        text: one.text,
        tags: one.tags,
        when: one.changed_at,
      }),
    },
  },
  media: {
    label: "Media",
    singular: "Media item",
    icon: "media",
    kindInImports: "media",
    path: "/api/media",
    library: {
      about: "Videos, podcasts, books and articles, with their text or transcript.",
      card: (one) => ({
        id: one.id,
        title: one.title,
        kind: one.origin,
        tags: one.tags,
        when: one.changed_at,
        text: one.text,
      }),
    },
  },
  chats: {
    label: "Chats",
    singular: "Chat",
    icon: "chats",
    hasMessages: true,
    path: "/api/chats",
    library: {
      about: "Conversations with characters.",
      card: (one) => ({
        id: one.id,
        title: one.title,
        kind: plural(one.messages, "message"),
        when: one.changed_at,
      }),
    },
  },
  prompts: {
    label: "Prompts",
    singular: "Prompt",
    icon: "prompts",
    kindInImports: "prompts",
    isWritten: true,
    path: "/api/prompts",
    library: {
      about: "Prompts to use again. MCP clients see them too.",
      card: (one) => ({
        id: one.id,
        title: one.title,
        text: one.text,
        tags: one.tags,
        when: one.changed_at,
        kind: one.author ?? undefined,
      }),
    },
  },
  characters: {
    label: "Characters",
    singular: "Character",
    icon: "characters",
    kindInImports: "characters",
    path: "/api/characters",
    library: {
      about: "Characters you can chat with.",
      card: (one) => ({
        id: one.id,
        title: one.title,
        text: one.text,
        tags: one.tags,
        when: one.changed_at,
        avatar: one.title,
      }),
    },
  },
};

// The row of a source, or undefined. A name from a link may be anything, "constructor" too.
export const findSource = (name) => (Object.hasOwn(SOURCES, name) ? SOURCES[name] : undefined);

export const sourceNames = Object.keys(SOURCES);

// The sources whose row has this field.
export const sourcesWith = (field) => sourceNames.filter((name) => SOURCES[name][field]);
