// A conversation as a request of the API, and the events of its answer as a message.

// A message as the API has it.
function apiMessage(message) {
  if (message.role === "tool") {
    return { role: "tool", tool_call_id: message.call_id, content: message.content };
  }
  const out = { role: message.role, content: message.content };
  if (message.reasoning) out.reasoning_content = message.reasoning;
  if (message.calls?.length > 0) out.tool_calls = message.calls;
  return out;
}

function requestOf(of, continues) {
  const says = (message) =>
    message.role !== "assistant" || message.content || message.calls?.length > 0;
  const messages = of.messages.filter(says).map(apiMessage);
  if (of.system) messages.unshift({ role: "system", content: of.system });
  const body = { messages, stream: true, stream_options: { include_usage: true } };
  for (const { name } of fieldsOf()) {
    if (of.settings[name] !== undefined) body[name] = of.settings[name];
  }
  if (at("model").value) body.model = at("model").value;
  if (of.tools.trim() !== "") body.tools = JSON.parse(of.tools);
  if (continues) body.continue_final_message = true;
  return body;
}

function addCalls(message, deltas) {
  message.calls ??= [];
  for (const delta of deltas) {
    const call = message.calls[delta.index ?? 0] ??=
      { id: "", type: "function", function: { name: "", arguments: "" } };
    if (delta.id) call.id = delta.id;
    call.function.name += delta.function?.name ?? "";
    call.function.arguments += delta.function?.arguments ?? "";
  }
}

// Takes one event's data into the message. True: something of the answer itself came.
function take(message, data) {
  if (data.error) throw new ServerError(errorText(data.error), 0, 0);
  if (data.usage) {
    Object.assign(message.counts, { prompt: data.usage.prompt_tokens ?? null,
      cached: data.usage.prompt_tokens_details?.cached_tokens ?? null,
      completion: data.usage.completion_tokens ?? null });
  }
  const choice = data.choices?.[0];
  if (!choice) return false;
  const delta = choice.delta ?? {};
  message.content += delta.content ?? "";
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
  if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
  if (delta.tool_calls) addCalls(message, delta.tool_calls);
  if (choice.finish_reason) message.finish = choice.finish_reason;
  return Boolean(delta.content || reasoning || delta.tool_calls);
}
