// The parts of the server's answers that the console uses.

export interface Agent {
  id: string;
  slug: string;
  name: string;
  display_name: string | null;
  is_online: boolean;
  ide: string | null;
  model: string | null;
  client: string | null;
  description: string | null;
  capabilities: string[] | null;
  waiting_in: string | null;
  last_activity: string | null;
  last_activity_time: string | null;
  last_heartbeat: string;
}

export interface Reaction {
  id?: string;
  agent_id: string | null;
  agent_name: string | null;
  reaction: string;
}

export interface Message {
  id: string;
  thread_id: string;
  seq: number;
  author_id: string | null;
  author_name: string;
  role: string;
  content: string;
  created_at: string;
  edited_at: string | null;
  edit_version: number;
  priority: string;
  reply_to_msg_id: string | null;
  mentions: string[];
  metadata: Record<string, any> | null;
  reactions: Reaction[];
}

// How far a message got to one agent that it names.
export interface Receipt {
  name: string;
  agent_id: string | null;
  state: "stored" | "delivered" | "read" | "reacted" | "declined" | "answered" | "not_reached";
  way: string | null;
  turn: number | null;
  at: string | null;
  reaction: string | null;
  answer_id: string | null;
  reason: string | null;
}

export interface Thread {
  id: string;
  topic: string;
  status: string;
  created_at: string;
  current_seq: number;
  message_count: number;
  metadata: Record<string, any> | null;
  summary: string | null;
  system_prompt: string | null;
  template_id: string | null;
}

// A thread in the list, with its last message.
export interface ListedThread extends Thread {
  participants: string[];
  last: { seq: number; author_name: string; text: string; is_human_only: boolean; created_at: string } | null;
}

// A message that mentions the user.
export interface Mention {
  message_id: string;
  thread_id: string;
  topic: string;
  seq: number;
  author: string;
  created_at: string;
  text: string;
  is_read: boolean;
}

// A question of an agent to people.
export interface Claim {
  claim_id: string;
  project: string;
  pattern: string;
  kind: "exclusive" | "shared";
  holder: string;
  because: string;
  expires_at: string;
}

export interface Question {
  question_id: string;
  thread_id: string;
  topic: string;
  asked_by: string;
  text: string;
  choices: string[];
  permission: { program: string; tool: string; command: string; folder: string } | null;
  asked_at: string;
  expires_at: string;
  state: "open" | "answered" | "expired";
  answer: string | null;
  answered_by: string | null;
  earlier: { answer: string; answered_by: string; answered_at: string }[];
}

// One search result, as it is shown.
export interface SearchResult {
  source: string;
  href: string;
  title: string;
  author?: string;
  when?: string;
  snippet: unknown;
  kind?: string;
  project?: string;
  answer?: RelatedMessage;
  correction?: RelatedMessage;
}

export interface RelatedMessage {
  href: string;
  author: string;
  snippet: unknown;
}
