// How a message looks, and what can be done with it.

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

const kFinishes = {
  length: "ended at its limit of tokens",
  stopped: "stopped",
  left: "cut, as the page was reloaded or closed",
  tool_calls: "asks for tools",
};

function countsText(message) {
  const parts = [];
  const counts = message.counts;
  if (counts?.completion) {
    parts.push(plural(counts.completion, "token"));
    const time = counts.seconds - counts.first;
    if (counts.completion > 1 && time > 0) {
      parts.push(`${rounded((counts.completion - 1) / time)} tokens/s`);
    }
  }
  if (counts?.first) parts.push(`first after ${durationText(counts.first)}`);
  if (counts?.prompt) {
    parts.push(`prompt ${counts.prompt.toLocaleString("en")}` +
      (counts.cached ? `, ${counts.cached.toLocaleString("en")} cached` : ""));
  }
  if (kFinishes[message.finish]) parts.push(kFinishes[message.finish]);
  return parts.join(" \u00b7 ");
}

// JSON with line breaks where it is JSON.
function argumentsText(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without HTTPS only pages of this machine have a clipboard.
    const area = make("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

async function copyFrom(button, text) {
  const copied = await copyText(text);
  button.textContent = copied ? "Copied" : "Not copied";
  document.getElementById("status").textContent = button.textContent;
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}

// One message on the page. `actions`: functions by the names that its buttons show.
class MessageView {
  constructor(message) {
    this.message = message;
    this.name = make("p", { class: "who" });
    this.reasoning = make("div", { class: "text" });
    this.thought = make("details", { class: "thought", hidden: true },
      make("summary", {}, "Reasoning"), this.reasoning);
    this.text = make("div", { class: "text", dir: message.role === "user" ? "auto" : null });
    this.calls = make("div");
    this.problem = make("p", { class: "notice", hidden: true });
    this.counts = make("p", { class: "soft small counts" });
    this.actions = make("div", { class: "actions" });
    this.foot = make("div", { class: "foot" }, this.counts, this.actions);
    this.element = make("article", { class: `message ${message.role}` }, this.name, this.thought,
      this.text, this.calls, this.problem, this.foot);
    this.show(false);
  }

  // `live`: it is being written; `note`: what it waits for.
  show(live, note = "") {
    const { message } = this;
    const names = { user: "You", assistant: message.model || "Model",
      tool: message.name ? `Result of ${message.name}` : "Result of a tool" };
    this.name.textContent = names[message.role];
    this.element.classList.toggle("live", live);
    this.element.setAttribute("aria-busy", String(live));
    this.thought.hidden = !message.reasoning;
    if (message.reasoning) {
      showMarkdown(this.reasoning, message.reasoning);
      this.thought.firstChild.textContent = live && !message.content ? "Reasoning, under way"
        : "Reasoning";
    }
    if (message.role === "assistant") {
      showMarkdown(this.text, message.content);
    } else {
      this.text.textContent = message.content;
    }
    this.text.hidden = message.content === "" && !live;
    this.showCalls();
    this.problem.hidden = !message.error;
    this.problem.textContent = message.error || "";
    this.counts.textContent = live ? note : countsText(message);
  }

  showCalls() {
    const calls = (this.message.calls || []).map((call) => make("figure", { class: "code call" },
      make("figcaption", {}, make("span", {}, `Calls ${call.function.name || "a tool"}`),
        make("button", { type: "button", class: "plain", "data-copy": "code" }, "Copy")),
      make("pre", { tabindex: "0" }, make("code", {}, argumentsText(call.function.arguments)))));
    this.calls.replaceChildren(...calls);
  }

  offer(actions) {
    this.actions.replaceChildren(...Object.entries(actions).map(([name, act]) => {
      const button = make("button", { type: "button", class: "plain" }, name);
      button.addEventListener("click", () => act(button));
      return button;
    }));
  }

  // In the place of the text: a box for another one. Resolves to it, or to null. The box stays
  // where `agree` refuses what is sent.
  edit(agree) {
    return new Promise((resolve) => {
      const area = make("textarea", { "aria-label": "Message", rows: 3, dir: "auto" });
      area.value = this.message.content;
      const end = (text) => {
        editor.remove();
        this.text.hidden = false;
        this.foot.hidden = false;
        resolve(text);
      };
      const send = () => {
        if (agree(area.value)) end(area.value);
      };
      const button = (name, style, act) =>
        make("button", { type: "button", class: style, onclick: act }, name);
      const editor = make("div", { class: "editor" }, area, make("div", { class: "row end" },
        button("Cancel", "plain", () => end(null)),
        button("Send", "strong", send)));
      area.addEventListener("keydown", (event) => {
        if (event.key === "Escape") end(null);
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          send();
        }
      });
      this.text.hidden = true;
      this.foot.hidden = true;
      this.text.after(editor);
      area.focus();
    });
  }
}

// Boxes for what the tools say that a message calls; `send` gets the texts.
function resultsForm(message, send) {
  const areas = message.calls.map((call) => make("textarea", { rows: 2, class: "mono",
    "aria-label": `Result of ${call.function.name}`,
    placeholder: `Result of ${call.function.name}` }));
  const submit = (event) => {
    event.preventDefault();
    send(areas.map((area) => area.value));
  };
  return make("form", { class: "results", onsubmit: submit }, ...areas,
    make("div", { class: "row end" }, make("button", { class: "strong" }, "Send results")));
}
