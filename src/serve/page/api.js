// Requests to the server that the page came from, with the key if it asks for one.

const kKeyName = "dovetail.key";
let apiKey = "";
try {
  apiKey = sessionStorage.getItem(kKeyName) || "";
} catch {
  // Without storage the key lives as long as the page.
}

function setKey(key) {
  apiKey = key;
  document.getElementById("forget-key").hidden = key === "";
  window.dispatchEvent(new Event("dovetail-key"));
  try {
    if (key) sessionStorage.setItem(kKeyName, key);
    else sessionStorage.removeItem(kKeyName);
  } catch {
    return;
  }
}

// What a response that is no success says, in words.
class ServerError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

// The server's message as a sentence; what begins with a field's name keeps that as it is.
function errorText(error) {
  const text = typeof error?.message === "string" && error.message !== "" ? error.message
    : "the server gave an error without a message";
  const begin = /^[a-z]+ /.test(text) ? text[0].toUpperCase() : text[0];
  return begin + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

async function errorOf(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    body = null;
  }
  const text = body && body.error ? errorText(body.error)
    : `The server answered with status ${response.status}.`;
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  return new ServerError(text, response.status, retryAfter);
}

let keyQuestion = null; // one dialog for all who wait for a key

function askForKey(problem) {
  keyQuestion ??= new Promise((resolve) => {
    const dialog = document.getElementById("key");
    const input = document.getElementById("key-input");
    document.getElementById("key-problem").textContent = problem;
    input.value = "";
    const closed = () => {
      dialog.removeEventListener("close", closed);
      keyQuestion = null;
      const given = dialog.returnValue === "use" && input.value.trim() !== "";
      if (given) setKey(input.value.trim());
      input.value = "";
      resolve(given);
    };
    dialog.returnValue = "";
    dialog.addEventListener("close", closed);
    dialog.showModal();
  });
  return keyQuestion;
}

// A response with a status of success; anything else is thrown as an error that says why. `quiet`:
// no key is asked for.
async function call(path, { body, signal, quiet = false } = {}) {
  for (;;) {
    const headers = {};
    const key = apiKey;
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response = null;
    try {
      response = await fetch(path, {
        method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store",
        credentials: "omit", body: body === undefined ? undefined : JSON.stringify(body) });
    } catch (failure) {
      if (failure.name === "AbortError") throw failure;
      throw new ServerError("The server cannot be reached.", 0, 0);
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401 || quiet) throw error;
    if (key === apiKey && !(await askForKey(key ? error.message : ""))) {
      throw new ServerError("This server asks for a key, and none was given.", 401, 0);
    }
  }
}

// The data of each server-sent event of a response.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).trimStart());
        if (data.length > 0) yield data.join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
