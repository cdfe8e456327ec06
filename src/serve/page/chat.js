// The conversation that is open: what is sent, what comes back, and what the controls do.

const kSaveEvery = 2000; // milliseconds, while an answer comes
const kWhole = ["stop", "tool_calls", "content_filter"]; // how an answer ends that was not cut
const kMaxWholeTitle = 500;
const kDateStyle = { dateStyle: "medium", timeStyle: "short" };
const kAnswersAtOnce = 5; // browsers open six connections to a server, and the strip has one
const kPatience = 1000; // milliseconds without a response after which an answer says that it waits
const kNearEnd = 60; // pixels from the end of the log within which it follows an answer

const at = (id) => document.getElementById(id);
const log = at("log");
const input = at("input");
let models = [];
let conversation = newConversation();
let views = [];
const answers = new Map(); // those under way, by the ids of their conversations
let answer = null; // that of the conversation that is open: {controller, message, conversation}

function say(text) {
  at("notice").textContent = text;
  at("notice").hidden = text === "";
}

function titleOf(each, length = 60) {
  const first = each.messages.find((message) => message.role === "user");
  return each.title || first?.content.trim().split("\n")[0].slice(0, length) || "New conversation";
}

// What the list has no room for.
function wholeTitleOf(each) {
  const changed = new Date(each.changed);
  return `${titleOf(each, kMaxWholeTitle)}\n${changed.toLocaleString("en", kDateStyle)}`;
}

function removedText(count) {
  return count === 1 ? "The history is full: its oldest conversation was removed"
    : `The history is full: its ${count.toLocaleString("en")} oldest conversations were removed`;
}

function save(which = conversation) {
  which.changed = Date.now();
  keep(which);
  showList();
}

// Stores it where it stands in the list: answers that are written beside each other would trade
// places all the time, and what is made anew under a pointer cannot be clicked.
function keep(which) {
  const { fits, removed } = saveConversation(which);
  if (!fits) say("This browser has no space left to keep this conversation.");
  else if (removed > 0) say(`${removedText(removed)}.`);
  if (removed > 0) showList();
}

function showList() {
  const focused = document.activeElement.closest("#list button")?.dataset.id;
  at("list").replaceChildren(...listConversations().map((each) => make("li", {},
    make("button", { type: "button", class: "plain", onclick: () => openConversation(each),
      "data-id": each.id, title: wholeTitleOf(each),
      "aria-current": each.id === conversation.id ? "true" : null },
    ...(answers.has(each.id)
      ? [make("span", { class: "answering", role: "img", "aria-label": "Is being answered:" })]
      : []),
    titleOf(each)))));
  if (focused) at("list").querySelector(`[data-id="${focused}"]`)?.focus();
}

function showTitle() {
  at("title").value = conversation.title;
  at("title").placeholder = titleOf(conversation);
  document.title = `${titleOf(conversation)} \u2013 Dovetail`;
  const changed = Object.keys(conversation.settings).length + (conversation.system ? 1 : 0) +
    (conversation.tools ? 1 : 0);
  at("open-settings").textContent = changed > 0 ? `Settings (${changed})` : "Settings";
}

// Those that are in no list yet are one: what was written for one of them stands in the next.
function nameInTab(which) {
  return conversations.has(which.id) ? which.id : "new";
}

function keepDraft(text) {
  keepInTab(`draft.${nameInTab(conversation)}`, text);
}

function openConversation(which) {
  conversation = which;
  input.value = keptInTab(`draft.${nameInTab(which)}`);
  fitInput();
  answer = answers.get(which.id) ?? null;
  setBusy(answer !== null);
  say("");
  document.body.classList.remove("side-open");
  at("open-side").setAttribute("aria-expanded", "false");
  showLog();
  showList();
  log.scrollTop = log.scrollHeight;
  if (window.matchMedia("(hover: hover)").matches) input.focus();
}

function showEmpty() {
  const model = models.find((each) => each.id === at("model").value);
  const context = model?.max_model_len
    ? `${model.id} sees ${model.max_model_len.toLocaleString("en")} tokens of a conversation.` : "";
  at("messages").replaceChildren(make("div", { class: "empty" },
    make("p", {}, "What would you like to ask?"), make("p", { class: "soft small" }, context)));
}

function showLog() {
  showTitle();
  views = conversation.messages.map((message) => new MessageView(message));
  if (views.length === 0) showEmpty();
  else at("messages").replaceChildren(...views.map((view) => view.element));
  if (answer) views.at(-1).show(true, answer.note);
  offerActions();
}

function offerActions() {
  const { messages } = conversation;
  const lastUser = messages.findLastIndex((message) => message.role === "user");
  at("messages").querySelector(".results")?.remove();
  views.forEach((view, index) => {
    const { message } = view;
    const actions = {};
    if (message.content) actions.Copy = (button) => copyFrom(button, message.content);
    if (!answer) {
      const last = index === messages.length - 1;
      if (index === lastUser) actions.Edit = () => edit(index);
      if (last) actions[message.role === "assistant" ? "Regenerate" : "Answer"] = regenerate;
      if (last && message.role === "assistant" && message.content &&
          !kWhole.includes(message.finish)) {
        actions.Continue = () => {
          say("");
          generate(message);
        };
      }
      actions[last ? "Delete" : "Delete from here"] = () => removeFrom(index);
      if (last && message.calls?.length > 0) {
        view.foot.before(resultsForm(message, sendResults));
      }
    }
    view.offer(actions);
  });
}

// "the one after it", "the 3 after it"; nothing is after the last message.
function thoseAfter(index) {
  const after = conversation.messages.length - 1 - index;
  return after === 0 ? "" : `the ${after === 1 ? "one" : after} after it`;
}

function removeFrom(index) {
  const after = thoseAfter(index);
  if (after && !window.confirm(`Delete this message and ${after}?`)) return;
  conversation.messages.length = index;
  save();
  showLog();
}

async function edit(index) {
  const after = thoseAfter(index);
  const text = await views[index].edit((changed) => changed.trim() === "" || !after ||
    window.confirm(`Send this message anew? It and ${after} are deleted.`));
  if (text === null || text.trim() === "" || answer) return;
  conversation.messages.length = index;
  ask(text);
}

function regenerate() {
  say("");
  if (conversation.messages.at(-1)?.role === "assistant") conversation.messages.pop();
  showLog();
  generate();
}

function ask(text) {
  say("");
  conversation.messages.push({ role: "user", content: text });
  save();
  showLog();
  generate();
}

function sendResults(texts) {
  say("");
  const { calls } = conversation.messages.at(-1);
  texts.forEach((content, index) => conversation.messages.push({ role: "tool", content,
    call_id: calls[index].id, name: calls[index].function.name }));
  save();
  showLog();
  generate();
}

// Shows an answer under way in the next frame, and less often the longer that takes.
function showSoon(shown) {
  if (answer !== shown || shown.waits) return;
  shown.waits = true;
  const pause = Math.min(1000, Math.max(30, 10 * (shown.cost ?? 0)));
  setTimeout(() => requestAnimationFrame(() => {
    shown.waits = false;
    if (answer !== shown) return;
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < kNearEnd;
    const begin = performance.now();
    views.at(-1).show(true, shown.note);
    shown.cost = performance.now() - begin;
    if (follows) log.scrollTop = log.scrollHeight;
  }), pause);
}

// Says of an answer that no response has come for a while, where the browser has no connection for it.
function noteWait(mine) {
  const hop = performance.getEntriesByType("navigation")[0]?.nextHopProtocol ?? "";
  if (answers.size <= kAnswersAtOnce || !hop.startsWith("http/1")) return 0;
  return setTimeout(() => {
    mine.note = "Waits for a connection: the browser opens six to a server, and other answers have them.";
    showSoon(mine);
    if (answer === mine) at("status").textContent = mine.note;
  }, kPatience);
}

function setBusy(busy) {
  if (!busy && document.activeElement === at("stop")) input.focus();
  at("send").hidden = busy;
  at("stop").hidden = !busy;
}

// Has the conversation answered; `continued`: its last message, to go on with.
async function generate(continued = null) {
  const of = conversation;
  let body = null;
  try {
    body = requestOf(of, continued !== null);
  } catch {
    say("The tools in the settings are no JSON.");
    return;
  }
  const message = continued ?? { role: "assistant", content: "", model: at("model").value };
  message.counts = {};
  delete message.finish;
  delete message.error;
  if (!continued) of.messages.push(message);
  of.changed = Date.now(); // it is not for an import any more
  const controller = new AbortController();
  const mine = { controller, message, conversation: of, note: "" };
  answers.set(of.id, mine);
  answer = mine;
  setBusy(true);
  showLog();
  showList();
  log.scrollTop = log.scrollHeight;
  const begin = performance.now();
  const seconds = () => (performance.now() - begin) / 1000;
  let saved = Date.now();
  const waiting = noteWait(mine);
  try {
    const response = await call("v1/chat/completions", { body, signal: controller.signal });
    clearTimeout(waiting);
    mine.note = "";
    showSoon(mine);
    for await (const text of eventsOf(response)) {
      if (text === "[DONE]") break;
      const came = take(message, JSON.parse(text));
      if (came) {
        message.counts.first ??= seconds();
        message.counts.seconds = seconds();
      }
      showSoon(mine);
      if (Date.now() - saved > kSaveEvery) {
        saved = Date.now();
        keep(of);
      }
    }
    message.finish ??= "stopped";
    at("status").textContent = answer === mine ? "The answer is complete."
      : `The answer in "${titleOf(of)}" is complete.`;
  } catch (failure) {
    if (failure.name === "AbortError") {
      message.finish = "stopped";
      at("status").textContent = "Stopped.";
    } else if (message.finish !== "left") {
      message.error = failure instanceof ServerError ? failure.message
        : "The connection ended before the answer did.";
      if (failure.retryAfter > 0) message.error += ` (Try again in ${failure.retryAfter} s.)`;
      at("status").textContent = message.error;
    }
  }
  clearTimeout(waiting);
  const empty = message.content === "" && !message.reasoning && !message.calls?.length;
  if (empty && message.finish === "stopped") {
    of.messages.splice(of.messages.indexOf(message), 1);
  }
  if (answers.get(of.id) === mine) answers.delete(of.id);
  if (conversations.has(of.id)) save(of);
  if (answer === mine) {
    answer = null;
    setBusy(false);
  }
  if (of !== conversation) return;
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < kNearEnd;
  showLog();
  if (follows) log.scrollTop = log.scrollHeight;
}

function fitInput() {
  input.style.height = "auto";
  input.style.height = `${Math.min(input.scrollHeight + 2, window.innerHeight * 0.4)}px`;
}

let loadingModels = false;

async function loadModels() {
  if (loadingModels || models.length > 0) return;
  loadingModels = true;
  try {
    const list = await (await call("v1/models")).json();
    models = list.data;
    say("");
  } catch (failure) {
    say(failure.message);
    return;
  } finally {
    loadingModels = false;
  }
  at("model").replaceChildren(...models.map((model) =>
    make("option", { value: model.id }, model.id)));
  if (conversation.messages.length === 0) showLog();
}

function exportAll() {
  const url = URL.createObjectURL(new Blob([exportText()], { type: "application/json" }));
  make("a", { href: url, download: "dovetail-conversations.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function importedText({ taken, kept, unfit, full, removed }) {
  const parts = [`${plural(taken, "conversation")} taken over`];
  if (kept > 0) parts.push(`${kept} not, as what is here is as new or newer`);
  if (full > 0) parts.push(`${full} left out for want of space`);
  if (unfit > 0) parts.push(`${unfit} left out, as they are no conversations`);
  return `${parts.join("; ")}.${removed > 0 ? ` ${removedText(removed)}.` : ""}`;
}

async function importFile() {
  const file = at("import-file").files[0];
  at("import-file").value = "";
  if (!file) return;
  try {
    const count = importText(await file.text());
    showStored();
    say(importedText(count));
  } catch (failure) {
    say(failure.message);
  }
}

// After conversations were changed by another tab or a file. Those that are being answered stay as
// they are here.
function showStored() {
  for (const [id, each] of answers) conversations.set(id, each.conversation);
  const stored = conversations.get(conversation.id);
  if (stored && stored !== conversation) {
    conversation = stored;
    showLog();
  }
  showList();
}

function listen() {
  at("compose").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value;
    if (answer || text.trim() === "") return;
    input.value = "";
    keepDraft("");
    fitInput();
    ask(text);
  });
  input.addEventListener("input", () => {
    keepDraft(input.value);
    fitInput();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    at("compose").requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (answer) answer.controller.abort();
    showSide(false);
  });
  const showSide = (shown) => {
    document.body.classList.toggle("side-open", shown);
    at("open-side").setAttribute("aria-expanded", String(shown));
  };
  at("open-side").addEventListener("click", () => {
    showSide(true);
    at("close-side").focus();
  });
  at("close-side").addEventListener("click", () => {
    showSide(false);
    at("open-side").focus();
  });
  at("stop").addEventListener("click", () => answer?.controller.abort());
  at("new").addEventListener("click", () => openConversation(newConversation(conversation)));
  at("delete").addEventListener("click", () => {
    if (conversation.messages.length > 0 &&
        !window.confirm(`Delete "${titleOf(conversation)}"?`)) return;
    const old = conversation;
    answer?.controller.abort();
    answers.delete(old.id);
    keepDraft("");
    removeConversation(old.id);
    openConversation(listConversations()[0] ?? newConversation(old));
  });
  at("title").addEventListener("change", () => {
    conversation.title = at("title").value.trim();
    if (conversation.messages.length > 0) save();
    showTitle();
  });
  at("model").addEventListener("change", () => {
    if (conversation.messages.length === 0) showEmpty();
  });
  at("open-settings").addEventListener("click", openSettings);
  at("tools").addEventListener("input", checkTools);
  at("settings").addEventListener("close", closeSettings);
  at("reset").addEventListener("click", () => {
    for (const { name } of fieldsOf()) {
      at(`field-${name}`).value = "";
      at(`field-${name}`).setCustomValidity("");
    }
  });
  at("key-cancel").addEventListener("click", () => at("key").close(""));
  at("forget-key").addEventListener("click", () => setKey(""));
  at("export").addEventListener("click", exportAll);
  at("import").addEventListener("click", () => at("import-file").click());
  at("import-file").addEventListener("change", importFile);
  at("messages").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copyFrom(button, button.closest("figure").querySelector("code").textContent);
  });
  window.addEventListener("dovetail-key", () => {
    if (apiKey) loadModels();
  });
  window.addEventListener("storage", (event) => {
    if (readStored(event.key)) showStored();
  });
  window.addEventListener("pagehide", () => {
    keepInTab("open", nameInTab(conversation));
    for (const { conversation: of, message } of answers.values()) {
      // Its request fails when the page goes, which is no fault of the connection.
      message.finish ??= "left";
      save(of);
    }
  });
}

loadConversations();
at("storage-note").hidden = storage !== null;
at("forget-key").hidden = apiKey === "";
listen();
openConversation(keptInTab("open") === "new" ? conversation
  : conversations.get(keptInTab("open")) ?? listConversations()[0] ?? conversation);
loadModels();
const strip = new LiveStrip();
