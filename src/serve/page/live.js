// The strip beside the chat: what the scheduler does, from /events. It listens while the page is in
// sight, so that a hidden tab takes no listener's place.

const kHistory = 120; // events that the small pictures show: two minutes
const kMinutes = `${Math.round(kHistory / 60)} minutes`;
const kFirstRetry = 1000; // milliseconds
const kLastRetry = 15000;

function rounded(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value))) + 1;
  return Math.abs(value) >= 10 ** digits ? Math.round(value).toLocaleString("en")
    : value.toFixed(Math.max(0, Math.min(2, digits - size)));
}

function durationText(seconds) {
  if (seconds == null) return "\u2013";
  return seconds < 1 ? `${rounded(seconds * 1000)} ms` : `${rounded(seconds)} s`;
}

function percentText(share) {
  return share == null ? "\u2013" : `${share > 0 && share < 0.1 ? (share * 100).toFixed(1)
    : Math.round(share * 100)}%`;
}

function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// A picture of one or two rows of numbers, the newest at the right; null is a gap.
class Sparkline {
  constructor(styles) {
    this.paths = styles.map((style) => svg("path", { class: style }));
    this.element = svg("svg", { class: "spark", viewBox: `0 0 ${kHistory - 1} 30`,
      preserveAspectRatio: "none", "aria-hidden": "true" });
    const base = svg("path", { class: "base", d: `M0 29.5H${kHistory - 1}` });
    this.element.append(base, ...this.paths);
  }

  // `top`: what the height stands for; none: the largest number.
  show(rows, top) {
    const largest = top ?? Math.max(...rows.flat().map((value) => value ?? 0));
    rows.forEach((row, index) => {
      let line = "";
      let begin = -1;
      const closed = this.paths[index].classList.contains("area");
      row.forEach((value, at) => {
        if (value == null) return;
        const x = kHistory - row.length + at;
        const y = (29.5 - 28 * Math.min(1, largest > 0 ? value / largest : 0)).toFixed(1);
        const broken = at === 0 || row[at - 1] == null;
        if (broken) begin = x;
        line += broken ? (closed ? `M${x} 29.5V${y}` : `M${x} ${y}`) : `L${x} ${y}`;
        if (at + 1 === row.length || row[at + 1] == null) {
          if (closed) line += `V29.5`;
          else if (begin === x) line += "h.5";
        }
      });
      this.paths[index].setAttribute("d", line);
    });
  }
}

// What a gauge shows of the newest event, and what its picture shows of each.
const kGauges = [
  { name: "Tokens/s", styles: ["area", "second"],
    big: (event) => rounded(event.generated_tokens_per_second),
    more: (event) => `generated; prompts ${rounded(event.prompt_tokens_per_second)}` +
      (event.cached_tokens_per_second > 0
        ? `, cached ${rounded(event.cached_tokens_per_second)}` : ""),
    rows: (events) => [events.map((event) => event.generated_tokens_per_second),
      events.map((event) => event.prompt_tokens_per_second)] },
  { name: "Sequences", styles: ["area", "second"],
    big: (event) => `${event.running}`,
    more: (event) => `running, ${event.waiting} waiting`,
    rows: (events) => [events.map((event) => event.running),
      events.map((event) => event.waiting)] },
  { name: "Cache", styles: ["area"],
    big: (event) => percentText(event.kv_blocks_used / Math.max(1, event.kv_blocks)),
    more: (event) => `${event.kv_blocks_used.toLocaleString("en")} of ` +
      `${event.kv_blocks.toLocaleString("en")} blocks; ` +
      `${event.kv_blocks_cached.toLocaleString("en")} cached`,
    rows: (events) => [events.map((event) => event.kv_blocks_used / Math.max(1, event.kv_blocks))],
    top: 1 },
  { name: "Steps", styles: ["area"],
    big: (event) => durationText(event.mean_step_seconds),
    more: (event) => event.steps > 0
      ? `each; ${rounded(event.steps / Math.max(event.seconds, 1e-3))} per second, ` +
        `${percentText(event.mixed_step_share)} mixed`
      : "none in the last second",
    rows: (events) => [events.map((event) => event.mean_step_seconds)] },
  { name: "First token", styles: ["area"],
    big: (event) => durationText(event.first_token.mean_seconds),
    more: (event, events) => event.first_token.count > 0
      ? `the latest; ${requestsOf(events)} shown` : "no request yet",
    rows: (events) => [events.map((event) => event.first_token.mean_seconds)],
    last: (event) => event.first_token.count > 0 },
  { name: "Inter-token", styles: ["area"],
    big: (event) => durationText(event.between_tokens.mean_seconds),
    more: (event) => event.between_tokens.count > 0
      ? `on average; 95% within ${durationText(event.between_tokens.p95_seconds)}`
      : "no tokens yet",
    rows: (events) => [events.map((event) => event.between_tokens.mean_seconds)],
    last: (event) => event.between_tokens.count > 0 },
];

function requestsOf(events) {
  return plural(events.reduce((sum, event) => sum + event.first_token.count, 0), "request");
}

class LiveStrip {
  constructor() {
    this.events = [];
    this.line = document.getElementById("live-line");
    this.gauges = kGauges.map((gauge) => {
      const view = { gauge, big: make("dd"), more: make("dd", { class: "more" }),
        picture: new Sparkline(gauge.styles) };
      const element = make("dl", { class: "gauge" }, make("dt", {}, gauge.name), view.big,
        view.more, view.picture.element);
      document.getElementById("gauges").append(element);
      return view;
    });
    this.preempted = make("p", { class: "soft small" });
    document.getElementById("gauges").append(this.preempted);
    this.wide = window.matchMedia("(min-width: 1081px)");
    const details = document.getElementById("live-details");
    const fold = () => {
      details.open = this.wide.matches;
    };
    this.wide.addEventListener("change", fold);
    fold();
    document.addEventListener("visibilitychange", () => this.follow());
    window.addEventListener("dovetail-key", () => this.wake?.());
    this.follow();
  }

  // Listens while the page is in sight, and again after an end.
  async follow() {
    if (document.hidden) {
      this.controller?.abort();
      return;
    }
    if (this.controller) return;
    let retry = kFirstRetry;
    while (!document.hidden) {
      this.controller = new AbortController();
      try {
        const response = await call("events", { signal: this.controller.signal, quiet: true });
        for await (const data of eventsOf(response)) {
          retry = kFirstRetry;
          this.add(JSON.parse(data));
        }
        this.say("ended by the server", true);
      } catch (failure) {
        if (failure.name === "AbortError") break;
        retry = Math.max(retry, Math.min(kLastRetry, (failure.retryAfter || 0) * 1000));
        this.say(failure.status === 401 ? "waits for the key"
          : failure.status === 503 ? "too many listen already" : "not connected", true);
      }
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, retry);
      });
      retry = Math.min(kLastRetry, retry * 2);
    }
    this.controller = null;
    if (!document.hidden) this.follow();
  }

  say(text, stale) {
    this.line.textContent = text;
    document.getElementById("live").classList.toggle("stale", stale);
  }

  add(event) {
    this.events.push(event);
    if (this.events.length > kHistory) this.events.shift();
    this.say(event.draining ? "draining"
      : `${event.running} running, ${event.waiting} waiting, ` +
        `${rounded(event.generated_tokens_per_second)} tokens/s`, false);
    for (const { gauge, big, more, picture } of this.gauges) {
      // A latency stays until there is another one.
      const shown = gauge.last ? this.events.findLast(gauge.last) ?? event : event;
      big.textContent = gauge.big(shown);
      more.textContent = gauge.more(shown, this.events);
      picture.show(gauge.rows(this.events), gauge.top);
    }
    const preemptions = this.events.reduce((sum, each) => sum + each.preemptions, 0);
    this.preempted.textContent = `${preemptions === 0 ? "No" : preemptions} ` +
      `${preemptions === 1 ? "sequence was" : "sequences were"} preempted in these ${kMinutes}.`;
  }
}
