"use strict";
// Markdown as models write it becomes elements. Text enters the page as text nodes alone: there is
// no way from a message to markup, and links lead only where kLinkTarget allows.

// An element with attributes, listeners ("onclick": function) and children (elements or texts).
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

const kMaxNesting = 8; // of quotes and lists, and of emphasis; deeper is plain text
const kLinkTarget = /^(https?:\/\/|mailto:)[^\s\u0000-\u001f]+$/i;
const kFence = /^( {0,3})(`{3,}|~{3,})(.*)$/;
const kHeading = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kItem = /^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;

function indentOf(line) {
  let columns = 0;
  for (const sign of line) {
    if (sign === " ") columns += 1;
    else if (sign === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}

// Without its first columns of white space.
function dedented(line, columns) {
  let at = 0;
  let seen = 0;
  while (at < line.length && seen < columns && (line[at] === " " || line[at] === "\t")) {
    seen += line[at] === "\t" ? 4 - (seen % 4) : 1;
    at += 1;
  }
  return line.slice(at);
}

function isBlank(line) {
  return line.trim() === "";
}

function cellsOf(line) {
  const cells = [];
  let cell = "";
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\\" && text[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (text[at] === "|") {
      cells.push(cell.trim());
      cell = "";
    } else {
      cell += text[at];
    }
  }
  if (cell.trim() !== "") cells.push(cell.trim());
  return cells;
}

function isTableAt(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes("|") || !lines[at + 1].includes("-")) {
    return false;
  }
  const marks = cellsOf(lines[at + 1]);
  return marks.length > 0 && marks.every((mark) => /^:?-+:?$/.test(mark)) &&
    cellsOf(lines[at]).length === marks.length;
}

// Whether a paragraph ends before the line.
function beginsBlock(lines, at) {
  const line = lines[at];
  return isBlank(line) || kFence.test(line) || kHeading.test(line) || kRule.test(line) ||
    /^ {0,3}>/.test(line) || kItem.test(line) || isTableAt(lines, at);
}

function codeBlock(language, text) {
  return make("figure", { class: "code" },
    make("figcaption", {}, make("span", {}, language),
      make("button", { type: "button", class: "plain", "data-copy": "code" }, "Copy")),
    make("pre", { tabindex: "0" }, make("code", {}, text)));
}

function addFence(parent, lines, at, match) {
  const [, indent, fence, info] = match;
  const body = [];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next].trim();
    if (line.length >= fence.length && line === fence[0].repeat(line.length)) break;
    body.push(dedented(lines[next], indent.length));
  }
  parent.append(codeBlock(info.trim().split(/\s/)[0], body.join("\n")));
  return next + 1;
}

function addTable(parent, lines, at) {
  const heads = cellsOf(lines[at]);
  const sides = cellsOf(lines[at + 1]).map((mark) =>
    mark.endsWith(":") ? (mark.startsWith(":") ? "middle" : "right") : "");
  const row = (cells, tag) => make("tr", {}, ...heads.map((unused, column) => {
    const cell = make(tag, { class: sides[column] || null });
    addInline(cell, cells[column] || "", 0);
    return cell;
  }));
  const body = make("tbody");
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|") && !isBlank(lines[next]); next += 1) {
    body.append(row(cellsOf(lines[next]), "td"));
  }
  parent.append(make("div", { class: "scroll", tabindex: "0" },
    make("table", {}, make("thead", {}, row(heads, "th")), body)));
  return next;
}

function addQuote(parent, lines, at, depth) {
  const inner = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const match = /^ {0,3}> ?(.*)$/.exec(lines[next]);
    if (!match && (beginsBlock(lines, next) || next === at)) break;
    inner.push(match ? match[1] : lines[next]);
  }
  const quote = make("blockquote");
  addBlocks(quote, inner, depth + 1);
  parent.append(quote);
  return next;
}

function addList(parent, lines, at, depth) {
  const [, lead, mark] = kItem.exec(lines[at]);
  const base = indentOf(lead);
  const ordered = /\d/.test(mark);
  const list = make(ordered ? "ol" : "ul");
  if (ordered && parseInt(mark, 10) !== 1) list.setAttribute("start", parseInt(mark, 10));
  let next = at;
  while (next < lines.length) {
    const match = kItem.exec(lines[next]);
    if (!match || indentOf(match[1]) >= base + 2 || /\d/.test(match[2]) !== ordered) break;
    if (!ordered && match[2] !== mark) break;
    const inner = [match[3]];
    let width = lines[next].length - match[3].length;
    width = Math.max(base + 2, Math.min(width, base + 6));
    next += 1;
    let loose = false;
    for (; next < lines.length; next += 1) {
      const line = lines[next];
      const within = indentOf(line) >= base + 2;
      if (isBlank(line)) {
        const after = lines.slice(next, next + 3).find((each) => !isBlank(each));
        if (after === undefined || indentOf(after) < base + 2) break;
        loose = true;
      } else if (!within && (loose || beginsBlock(lines, next))) {
        break;
      }
      inner.push(dedented(line, Math.min(width, indentOf(line))));
    }
    const item = make("li");
    const task = /^\[([ xX])\][ \t]+/.exec(inner[0]);
    if (task) {
      inner[0] = inner[0].slice(task[0].length);
      item.className = "task";
      item.append(make("span", {}, task[1] === " " ? "\u2610 " : "\u2611 "));
    }
    addBlocks(item, inner, depth + 1);
    list.append(item);
    let following = next;
    while (following < lines.length && isBlank(lines[following])) following += 1;
    if (following < lines.length && kItem.test(lines[following])) next = following;
  }
  parent.append(list);
  return next;
}

function addParagraph(parent, lines, at) {
  const text = [lines[at].trim()];
  let next = at + 1;
  while (next < lines.length && !beginsBlock(lines, next)) {
    text.push(lines[next].trim());
    next += 1;
  }
  const paragraph = make("p");
  addInline(paragraph, text.join("\n"), 0);
  parent.append(paragraph);
  return next;
}

function addBlocks(parent, lines, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = kFence.exec(line);
    const heading = kHeading.exec(line);
    if (isBlank(line)) {
      at += 1;
    } else if (fence && !(fence[2][0] === "`" && fence[3].includes("`"))) {
      at = addFence(parent, lines, at, fence);
    } else if (heading) {
      // The page has headings of its own above those of a message.
      const element = make(`h${Math.min(heading[1].length + 2, 6)}`);
      addInline(element, heading[2].replace(/[ \t]+#+[ \t]*$/, "").trim(), 0);
      parent.append(element);
      at += 1;
    } else if (kRule.test(line)) {
      parent.append(make("hr"));
      at += 1;
    } else if (isTableAt(lines, at)) {
      at = addTable(parent, lines, at);
    } else if (depth < kMaxNesting && /^ {0,3}>/.test(line)) {
      at = addQuote(parent, lines, at, depth);
    } else if (depth < kMaxNesting && kItem.test(line)) {
      at = addList(parent, lines, at, depth);
    } else {
      at = addParagraph(parent, lines, at);
    }
  }
}

function isWord(sign) {
  return sign !== undefined && /[\p{L}\p{N}_]/u.test(sign);
}

// Where the emphasis of `many` signs that begins before `from` ends: the place of its last signs,
// or -1.
function closerOf(text, from, sign, many) {
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === "\\") {
      at += 1;
    } else if (text[at] === sign) {
      let end = at;
      while (text[end] === sign) end += 1;
      const length = end - at;
      const fits = many === 1 ? length % 2 === 1 : length >= many;
      const outside = sign !== "_" || !isWord(text[end]);
      if (fits && outside && at > from && !/\s/.test(text[at - 1])) return end - many;
      at = end - 1;
    }
  }
  return -1;
}

function addLink(parent, label, target, depth) {
  if (!kLinkTarget.test(target)) {
    parent.append(label === target ? label : `${label} (${target})`);
    return;
  }
  const link = make("a", { href: target, title: target, target: "_blank",
    rel: "noopener noreferrer nofollow" });
  if (label === target) link.append(label);
  else addInline(link, label, depth + 1);
  parent.append(link);
}

// [label](target "title"), or with ! in front; the target may have pairs of parentheses.
const kInlineLink = new RegExp(String.raw`!?\[([^\[\]\n]*)\]` +
  String.raw`\(<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:[ \t]+"[^"\n]*")?\)`, "y");
const kBareLink = /https?:\/\/[^\s<>"'`]+/y;
const kNextSign = /[\\`*_~\[!<h\n]/g;

function addInline(parent, text, depth) {
  if (depth > kMaxNesting) {
    parent.append(text);
    return;
  }
  const hopeless = new Set(); // emphasis that nothing closes from here on
  let plain = 0; // where the text begins that was not added yet
  let at = 0;
  const flush = () => {
    if (at > plain) parent.append(text.slice(plain, at));
  };
  const take = (end, add) => {
    flush();
    add();
    at = end;
    plain = end;
  };
  while (at < text.length) {
    kNextSign.lastIndex = at;
    const found = kNextSign.exec(text);
    if (!found) break;
    at = found.index;
    const sign = text[at];
    if (sign === "\n") {
      take(at + 1, () => parent.append(make("br")));
    } else if (sign === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] || "")) {
      take(at + 2, () => parent.append(text[at + 1]));
    } else if (sign === "`") {
      let end = at;
      while (text[end] === "`") end += 1;
      const fence = "`".repeat(end - at);
      let close = hopeless.has(fence) ? -1 : text.indexOf(fence, end);
      while (close >= 0 && text[close + fence.length] === "`") {
        while (text[close] === "`") close += 1;
        close = text.indexOf(fence, close);
      }
      if (close < 0) {
        hopeless.add(fence);
        at = end;
      } else {
        let code = text.slice(end, close).replace(/\n/g, " ");
        if (/^ .*\S.* $/.test(code)) code = code.slice(1, -1);
        take(close + fence.length, () => parent.append(make("code", {}, code)));
      }
    } else if (sign === "*" || sign === "_" || sign === "~") {
      let end = at;
      while (text[end] === sign) end += 1;
      const length = end - at;
      const many = sign === "~" ? 2 : length >= 2 ? 2 : 1;
      const opens = length >= many && length <= 3 && text[end] !== undefined &&
        !/\s/.test(text[end]) && (sign !== "_" || !isWord(text[at - 1]));
      const name = sign.repeat(many);
      const from = at + many;
      const close = opens && !hopeless.has(name) ? closerOf(text, from, sign, many) : -1;
      if (close < 0) {
        if (opens) hopeless.add(name);
        at = end;
      } else {
        const element = make(sign === "~" ? "del" : many === 2 ? "strong" : "em");
        addInline(element, text.slice(from, close), depth + 1);
        take(close + many, () => parent.append(element));
      }
    } else if (sign === "[" || sign === "!") {
      kInlineLink.lastIndex = at;
      const link = kInlineLink.exec(text);
      if (link) {
        const label = link[1] || link[2];
        take(at + link[0].length, () => addLink(parent, label, link[2], depth));
      } else {
        at += 1;
      }
    } else if (sign === "<" || (sign === "h" && !isWord(text[at - 1]))) {
      const from = sign === "<" ? at + 1 : at;
      kBareLink.lastIndex = from;
      const link = kBareLink.exec(text);
      if (link && sign === "<" && text[from + link[0].length] === ">") {
        take(from + link[0].length + 1, () => addLink(parent, link[0], link[0], depth));
      } else if (link && sign === "h") {
        let target = link[0].replace(/[.,:;!?*_~]+$/, "");
        if (target.endsWith(")") && !target.includes("(")) target = target.slice(0, -1);
        take(at + target.length, () => addLink(parent, target, target, depth));
      } else {
        at += 1;
      }
    } else {
      at += 1;
    }
  }
  at = text.length;
  flush();
}

// The elements that stand for a text.
function markdownElements(text) {
  const root = make("div");
  addBlocks(root, text.replace(/\r\n?/g, "\n").split("\n"), 0);
  // A block runs as its first letter does, with the blocks in it; code always runs to the right.
  for (const block of root.children) {
    if (block.className !== "code") block.dir = "auto";
  }
  return [...root.childNodes];
}

// Makes `parent` show the text. What has not changed stays as it is, with what is selected in it.
function showMarkdown(parent, text) {
  const wanted = markdownElements(text);
  let same = 0;
  while (same < wanted.length && parent.childNodes[same]?.isEqualNode(wanted[same])) same += 1;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  parent.append(...wanted.slice(same));
}
