// Conversations, each under a key of its own in localStorage, or in memory alone where the browser
// has none for the page. Bounded in number and in size: the oldest go first.

const kPrefix = "dovetail.conversation.";
const kTabPrefix = "dovetail.tab.";
const kMaxConversations = 200;
const kMaxTitle = 120;
const kMaxSettings = 64;

function textOf(value) {
  return typeof value === "string" ? value : "";
}

function numberOf(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function cleanCall(value) {
  const called = value?.function;
  return { id: textOf(value?.id), type: "function",
    function: { name: textOf(called?.name), arguments: textOf(called?.arguments) } };
}

function cleanMessage(value) {
  if (!["user", "assistant", "tool"].includes(value?.role)) return null;
  const message = { role: value.role, content: textOf(value.content) };
  if (value.reasoning) message.reasoning = textOf(value.reasoning);
  if (Array.isArray(value.calls)) message.calls = value.calls.map(cleanCall);
  if (value.call_id) message.call_id = textOf(value.call_id);
  if (value.name) message.name = textOf(value.name);
  if (value.error) message.error = textOf(value.error);
  if (value.finish) message.finish = textOf(value.finish);
  if (value.model) message.model = textOf(value.model);
  if (value.counts && typeof value.counts === "object") {
    message.counts = {};
    for (const name of ["prompt", "cached", "completion", "first", "seconds"]) {
      message.counts[name] = numberOf(value.counts[name]);
    }
  }
  return message;
}

// A conversation with nothing in it but what one has; null: it is none. Also of files.
function cleanConversation(value) {
  if (typeof value?.id !== "string" || !/^[\w-]{1,64}$/.test(value.id)) return null;
  if (!Array.isArray(value.messages)) return null;
  // Which of them are fields of a request, the server says (fieldsOf() in chat.js).
  const settings = {};
  for (const [name, setting] of Object.entries(value.settings ?? {}).slice(0, kMaxSettings)) {
    const number = numberOf(setting);
    if (number !== null && /^[a-z_]{1,64}$/.test(name)) settings[name] = number;
  }
  return { id: value.id, title: textOf(value.title).slice(0, kMaxTitle),
    changed: Math.min(numberOf(value.changed) ?? Infinity, Date.now()),
    system: textOf(value.system), tools: textOf(value.tools), settings,
    messages: value.messages.map(cleanMessage).filter((message) => message !== null) };
}

function newConversation(like) {
  const id = Array.from(crypto.getRandomValues(new Uint8Array(9)),
    (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, title: "", changed: Date.now(), system: like?.system ?? "",
    tools: like?.tools ?? "", settings: { ...like?.settings }, messages: [] };
}

const inTab = new Map();

// Keeps a text until the tab is closed, or in memory alone where the browser has no storage.
function keepInTab(name, text) {
  inTab.set(name, text);
  try {
    if (text) sessionStorage.setItem(kTabPrefix + name, text);
    else sessionStorage.removeItem(kTabPrefix + name);
  } catch {
    return;
  }
}

function keptInTab(name) {
  try {
    return inTab.get(name) ?? sessionStorage.getItem(kTabPrefix + name) ?? "";
  } catch {
    return "";
  }
}

const conversations = new Map();
let storage = null;

function loadConversations() {
  try {
    storage = window.localStorage;
    storage.setItem("dovetail.probe", "1");
    storage.removeItem("dovetail.probe");
  } catch {
    storage = null;
    return;
  }
  for (let index = 0; index < storage.length; index += 1) readStored(storage.key(index));
}

// Takes over what is stored under the key now, which another tab may have written.
function readStored(key) {
  if (!key?.startsWith(kPrefix)) return false;
  let conversation = null;
  try {
    conversation = cleanConversation(JSON.parse(storage.getItem(key)));
  } catch {
    conversation = null;
  }
  if (conversation && key === kPrefix + conversation.id) {
    conversations.set(conversation.id, conversation);
  } else {
    conversations.delete(key.slice(kPrefix.length));
  }
  return true;
}

// The last changed first.
function listConversations() {
  return [...conversations.values()].sort((a, b) => b.changed - a.changed);
}

function removeConversation(id) {
  conversations.delete(id);
  storage?.removeItem(kPrefix + id);
}

// False: there is no space for it.
function store(conversation, text = JSON.stringify(conversation)) {
  try {
    storage?.setItem(kPrefix + conversation.id, text);
    return true;
  } catch {
    return false;
  }
}

// Keeps a conversation, in the place of the oldest others where they do not fit beside it: those
// that `mayGo` says. `removed`: how many went. `fits` is false where there is no space for it even
// without them: then they stay.
function saveConversation(conversation, mayGo = () => true) {
  conversations.set(conversation.id, conversation);
  const others = listConversations().filter((other) => other !== conversation && mayGo(other));
  const text = JSON.stringify(conversation);
  const gone = [];
  while (conversations.size > kMaxConversations || !store(conversation, text)) {
    if (others.length === 0) {
      for (const other of gone) {
        conversations.set(other.id, other);
        store(other);
      }
      return { fits: false, removed: 0 };
    }
    gone.push(others.pop());
    removeConversation(gone.at(-1).id);
  }
  return { fits: true, removed: gone.length };
}

function exportText() {
  return JSON.stringify({ dovetail_conversations: 1, conversations: listConversations() }, null, 1);
}

// Takes over the conversations of a file's text: of two with one id the newer is kept, and none
// goes for an older one. How many were taken, were kept as they are here, are no conversations,
// found no space, and had to go; throws what is wrong with the text.
function importText(text) {
  let file = null;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON.");
  }
  const list = Array.isArray(file?.conversations) ? file.conversations : null;
  if (!list) {
    throw new Error("The file has no \"conversations\"; expected one that was exported here.");
  }
  const count = { taken: 0, kept: 0, unfit: 0, full: 0, removed: 0 };
  const read = list.map((value) => ({ each: cleanConversation(value), dated: value?.changed > 0 }));
  read.sort((a, b) => (b.each?.changed ?? 0) - (a.each?.changed ?? 0));
  for (const { each, dated } of read) {
    const here = conversations.get(each?.id);
    if (!each) {
      count.unfit += 1;
    } else if (here && !(dated && each.changed > here.changed)) {
      count.kept += 1;
    } else {
      const saved = saveConversation(each, (other) => other.changed < each.changed);
      count[saved.fits ? "taken" : "full"] += 1;
      count.removed += saved.removed;
      if (saved.fits) continue;
      if (here) conversations.set(here.id, here);
      else conversations.delete(each.id);
    }
  }
  return count;
}
