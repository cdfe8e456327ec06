// What a conversation is asked with: its system message, tools and sampling parameters.

// The sampling parameters of a request, as the server describes them.
function fieldsOf() {
  return models.find((model) => model.id === at("model").value)?.sampling_parameters ?? [];
}

// "top_p" is "Top p".
function labelOf(name) {
  return name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");
}

function settingField(parameter) {
  const { name, description, type, exclusiveMinimum: above, maximum } = parameter;
  const field = make("input", { id: `field-${name}`, type: "number", title: description,
    min: parameter.minimum ?? above, max: maximum, step: type === "integer" ? 1 : "any",
    placeholder: parameter.default ?? "not set", autocomplete: "off" });
  field.value = conversation.settings[name] ?? "";
  // A range of HTML has its ends.
  const check = () => field.setCustomValidity(
    field.valueAsNumber <= above ? `The value must be above ${above}.` : "");
  field.addEventListener("input", check);
  check();
  return make("div", {}, make("label", { for: `field-${name}` }, labelOf(name)), field);
}

function openSettings() {
  at("system").value = conversation.system;
  at("tools").value = conversation.tools;
  at("sampling").replaceChildren(...fieldsOf().map(settingField));
  checkTools();
  at("settings").showModal();
}

// Whether the tools are an array, or nothing; says so where they are not.
function checkTools() {
  const text = at("tools").value.trim();
  let problem = "";
  try {
    if (text !== "" && !Array.isArray(JSON.parse(text))) problem = "Expected an array: [...]";
  } catch (failure) {
    problem = `This is no JSON: ${failure.message}`;
  }
  at("tools-problem").textContent = problem;
  return problem === "";
}

function closeSettings() {
  conversation.system = at("system").value;
  if (checkTools()) conversation.tools = at("tools").value.trim();
  for (const { name } of fieldsOf()) {
    const value = at(`field-${name}`)?.valueAsNumber;
    if (Number.isFinite(value)) conversation.settings[name] = value;
    else delete conversation.settings[name];
  }
  if (conversation.messages.length > 0) save();
  showTitle();
}
