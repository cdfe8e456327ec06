"""The page at / in Chromium: markdown, a talk, its history, the key, the strip, and how it fits.

usage: page.py PROGRAM MODEL [unittest options]

The model is demo-arith. What the policy allows is checked without a browser; where Chromium is
missing the rest is left out and the exit code is 77.
"""

import base64
import hashlib
import json
import re
import sys
import time
import unittest
import urllib.request

import chromium
from running_server import API_KEY, RunningServer

PROGRAM, MODEL = sys.argv[1:3]
SKIPPED = 77  # CMakeLists.txt knows it

# What a message says, and what stands on the page.
MARKDOWN = [
    ("a **b** *c* __d__ _e_ ~~f~~ ***g***",
     "<p>a <strong>b</strong> <em>c</em> <strong>d</strong> <em>e</em> <del>f</del> "
     "<strong><em>g</em></strong></p>"),
    ("2 * 3 * 4 and snake_case_name and 5*6", "<p>2 * 3 * 4 and snake_case_name and 5*6</p>"),
    ("**open and `code **` \\*no\\*", "<p>**open and <code>code **</code> *no*</p>"),
    ("*a **b** c* and **a *b***",
     "<p><em>a <strong>b</strong> c</em> and <strong>a <em>b</em></strong></p>"),
    ("``a ` b`` `c", "<p><code>a ` b</code> `c</p>"),
    ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
    ("# A\n### B *c* ##\n#no", "<h3>A</h3><h5>B <em>c</em></h5><p>#no</p>"),
    ("- a\n- b\n  - c\n\n  d\n- e",
     "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul><p>d</p></li>"
     "<li><p>e</p></li></ul>"),
    ("3. a\n4. b\n\ntext", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol><p>text</p>'),
    ("> a\n> - b\nlazy\n\nc",
     "<blockquote><p>a</p><ul><li><p>b<br>lazy</p></li></ul></blockquote><p>c</p>"),
    ("---\n***", "<hr><hr>"),
    ("| a | b |\n|---|--:|\n| 1 \\| 2 | **3** |\n| 4 |",
     '<div class="scroll" tabindex="0"><table><thead><tr><th>a</th><th class="right">b</th></tr>'
     '</thead><tbody><tr><td>1 | 2</td><td class="right"><strong>3</strong></td></tr>'
     '<tr><td>4</td><td class="right"></td></tr></tbody></table></div>'),
    ("a | b", "<p>a | b</p>"),
    ("```py\nif a:\n    b < c\n```\nd",
     '<figure class="code"><figcaption><span>py</span><button type="button" class="plain" '
     'data-copy="code">Copy</button></figcaption><pre tabindex="0"><code>if a:\n    b &lt; c</code>'
     "</pre></figure><p>d</p>"),
    ("~~~\nopen **to** the end",
     '<figure class="code"><figcaption><span></span><button type="button" class="plain" '
     'data-copy="code">Copy</button></figcaption><pre tabindex="0"><code>open **to** the end</code>'
     "</pre></figure>"),
    ("<b>a</b> &amp; &lt;", "<p>&lt;b&gt;a&lt;/b&gt; &amp;amp; &amp;lt;</p>"),
]
HEBREW = "\u05e9\u05dc\u05d5\u05dd"
DIRECTIONS = [  # who says what, of which element, and where to its lines run
    ("user", "hello", "", "ltr"), ("user", HEBREW, "", "rtl"), ("assistant", "hello", " p", "ltr"),
    ("assistant", f"**{HEBREW}** a", " p", "rtl"), ("assistant", f"1. {HEBREW}", " ol", "rtl"),
    ("assistant", f"# {HEBREW}", " h3", "rtl"),
    ("assistant", f"> {HEBREW}", " blockquote p", "rtl"),
    ("assistant", f"- {HEBREW}\n\n  ```\n  a\n  ```", " pre", "ltr"),
]
LINKS = [  # what a message says, and where it leads
    ("[a](https://x.org/b_c)", ["https://x.org/b_c"]),
    ("see https://x.org/a_(b), or <http://y.org>.", ["https://x.org/a_(b)", "http://y.org"]),
    ("![alt](https://x.org/a.png)", ["https://x.org/a.png"]),
    ("[m](mailto:a@b.org)", ["mailto:a@b.org"]),
    ("[a](javascript:window.hurt=1)", []),
    ("[a](JaVaScRiPt&#58;window.hurt=1) [b](data:text/html,x) [c](//x.org) [d](vbscript:x)", []),
    ("[a](\x01javascript:x) [b](https:x) <javascript:x>", []),
    ('[a](https://x.org/"onclick="window.hurt=1)', ['https://x.org/"onclick="window.hurt=1']),
]
ATTACKS = [
    "<script>window.hurt=1</script>", "<img src=x onerror=window.hurt=1>",
    "<svg onload=window.hurt=1>", "```<img src=x onerror=window.hurt=1>\nx\n```",
    "| <img src=x onerror=window.hurt=1> | b |\n|---|---|\n| <script>window.hurt=1</script> | c |",
    "# <iframe srcdoc='<script>parent.hurt=1</script>'>", "- [ ] <style>*{display:none}</style>",
    '[<img src=x onerror=window.hurt=1>](https://x.org" onmouseover="window.hurt=1)',
]
HARD = ["*" * 50_000, "*a " * 20_000, "**a " * 20_000, "`" * 30_000 + "a", "[" * 50_000,
        "[a](" * 20_000, "> " * 5_000 + "a", "- " * 5_000 + "a",
        "|" * 20_000 + "\n" + "|-" * 20_000, "_a_ " * 20_000, "a\n" * 20_000, "~~~\n" * 10_001, "<h" * 30_000, "https://" * 20_000]

IMPORTS = [  # when the file's was changed, what is there then, and what the page says
    (1000, "here", "0 conversations taken over; 1 not, as what is here is as new or newer."),
    (2000, "here", "0 conversations taken over; 1 not, as what is here is as new or newer."),
    (None, "here", "0 conversations taken over; 1 not, as what is here is as new or newer."),
    (3000, "file", "1 conversation taken over."),
]
DELETIONS = [  # of which message, the answer to the question, the question, and how many stay
    (1, False, "Delete this message and the 2 after it?", 4),
    (3, False, "", 3),
    (1, False, "Delete this message and the one after it?", 3),
    (1, True, "Delete this message and the one after it?", 1),
]
# What cuts an answer: in the place of its request one that is cut, what cuts it, when that is done,
# and what the page says. The events of the scheduler do not end.
CUTS = [
    ("connection", """async () => new Response(new ReadableStream({ start(stream) {
        stream.enqueue(new TextEncoder().encode(
          'data: {"choices": [{"delta": {"content": " 5"}}]}\\n\\n'));
        window.cut = () => stream.error(new TypeError("network error")); } }))""",
     "cut()", "answer === null", "The connection ended before the answer did."),
    ("reload", """async (path, options) => {
        if (path === "v1/chat/completions") setTimeout(() => { answer.message.content = " 5"; });
        return real("events", { signal: options.signal }); }""",
     "location.reload()", "!window.real", "cut, as the page was reloaded or closed"),
]


class Policy(unittest.TestCase):
    def test_it_allows_the_script_and_the_style_by_their_hashes(self):
        server = RunningServer(PROGRAM, MODEL)
        self.addCleanup(server.stop)
        with urllib.request.urlopen(server.url + "/") as answer:
            policy = answer.headers["Content-Security-Policy"]
            page = answer.read().decode()
        for tag in ("script", "style"):
            inside = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
            self.assertEqual(len(inside), 1)
            digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
            self.assertIn(f"{tag}-src 'sha256-{digest}';", policy)


@unittest.skipUnless(chromium.program(), "Chromium is not installed")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer(PROGRAM, MODEL)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.browser = chromium.Chromium()
        self.addCleanup(self.browser.close)
        self.browser.open(self.server.url + "/")

    def give_key(self, key=API_KEY):
        self.browser.wait("document.getElementById('key').open")
        self.browser.run(f"document.getElementById('key-input').value = {json.dumps(key)}")
        self.browser.run("document.querySelector('#key .strong').click()")

    def start(self):
        self.give_key()
        self.browser.wait("models.length > 0")

    def send(self, text):
        self.browser.run("document.getElementById('input').focus()")
        self.browser.type(text)
        self.browser.press("Enter", 13)

    def ask(self, text):
        self.send(text)
        self.browser.wait("answer === null && conversation.messages.length > 0")
        return self.messages()[-1]

    def messages(self):
        return json.loads(self.browser.run("JSON.stringify(conversation.messages)"))

    def click(self, name):
        self.browser.run(
            "[...document.querySelectorAll('.message .actions button')]"
            f".findLast((button) => button.textContent === {json.dumps(name)}).click()")

    def imported(self, file):
        """What the page says of an import."""
        self.browser.run(
            "{ say(''); const files = new DataTransfer();"
            f" files.items.add(new File([{json.dumps(json.dumps(file))}], 'a.json'));"
            " const field = document.getElementById('import-file'); field.files = files.files;"
            " field.dispatchEvent(new Event('change')) }")
        self.browser.wait("!document.getElementById('notice').hidden")
        return self.notice()

    def notice(self):
        return self.browser.run("document.getElementById('notice').textContent")

    def shown(self, text):
        return self.browser.run(
            f"{{ const box = make('div'); showMarkdown(box, {json.dumps(text)}); box.innerHTML }}")

    def test_markdown(self):
        for text, expected in MARKDOWN:
            with self.subTest(text):
                self.assertEqual(self.shown(text).replace(' dir="auto"', ""), expected)
                # In pieces, as an answer comes, it ends as the same.
                self.assertEqual(self.browser.run(
                    "{ const box = make('div'); const text = " + json.dumps(text) + ";"
                    "for (let end = 0; end <= text.length; end += 1)"
                    " showMarkdown(box, text.slice(0, end)); box.innerHTML }")
                    .replace(' dir="auto"', ""), expected)

    def test_texts_run_as_their_letters_do(self):
        for role, text, query, runs in DIRECTIONS:
            with self.subTest(text, role=role):
                message = json.dumps({"role": role, "content": text})
                element = f"document.querySelector('.message > .text{query}')"
                self.browser.run(f"conversation.messages = [{message}]; showLog()")
                self.assertEqual(
                    self.browser.run(f"getComputedStyle({element}).direction"), runs)
        self.browser.run(f"input.value = '{HEBREW}'")
        self.assertEqual(self.browser.run("getComputedStyle(input).direction"), "rtl")

    def test_an_entry_of_the_list_says_its_whole_name_and_when(self):
        name = "long " * 30
        for title, says in (("", name.strip()), ("short", "short")):
            each = {"id": "x", "title": title, "changed": 86_400_000 * 365,
                    "messages": [{"role": "user", "content": name + "\nmore"}]}
            self.browser.run(f"saveConversation(cleanConversation({json.dumps(each)})); showList()")
            shown = self.browser.run("document.querySelector('#list button').title").split("\n")
            self.assertEqual(shown[0].strip(), says)
            self.assertRegex(shown[1], "^(Jan 1, 1971|Dec 31, 1970), ")

    def test_links_lead_to_the_web_alone(self):
        for text, targets in LINKS:
            with self.subTest(text):
                links = json.loads(self.browser.run(
                    f"{{ const box = make('div'); showMarkdown(box, {json.dumps(text)});"
                    "JSON.stringify([...box.querySelectorAll('a')].map((link) =>"
                    " [link.getAttribute('href'), link.rel, link.getAttributeNames().length])) }"))
                self.assertEqual([link[0] for link in links], targets)
                for link in links:
                    self.assertIn("noopener", link[1])
                    self.assertEqual(link[2], 4)

    def test_no_message_becomes_markup(self):
        allowed = ("A BLOCKQUOTE BR BUTTON CODE DEL DIV EM FIGCAPTION FIGURE H3 H4 H5 H6 HR LI OL"
                   " P PRE SPAN STRONG TABLE TBODY TD TH THEAD TR UL").split()
        for text in ATTACKS:
            with self.subTest(text):
                tags = json.loads(self.browser.run(
                    f"{{ const box = make('div'); showMarkdown(box, {json.dumps(text)});"
                    "document.getElementById('messages').append(box);"
                    "JSON.stringify([...box.querySelectorAll('*')].map((each) => each.tagName)) }"))
                self.assertLessEqual(set(tags), set(allowed))
        self.assertIsNone(self.browser.run("window.hurt ?? null"))
        # And if one did, the policy would not let it be.
        with self.assertRaisesRegex(RuntimeError, "TrustedHTML"):
            self.browser.run("document.body.innerHTML = '<p>'")
        with self.assertRaisesRegex(RuntimeError, "TrustedScript|unsafe-eval"):
            self.browser.run("setTimeout('window.hurt = 1'); eval('1')")

    def test_hard_texts_end(self):
        for text in HARD:
            with self.subTest(text[:10]):
                length = self.browser.run(
                    f"{{ const box = make('div'); showMarkdown(box, {json.dumps(text)});"
                    "box.textContent.length }")
                self.assertIsNotNone(length)

    def test_a_talk_and_its_history(self):
        self.give_key("wrong")
        self.browser.wait("document.getElementById('key-problem').textContent.includes('not the')")
        self.start()
        self.browser.run("conversation.settings = { temperature: 0 }")
        answer = self.ask("417+86")
        self.assertEqual(answer["content"].strip(), "503")
        self.assertEqual(answer["finish"], "stop")
        self.assertGreater(answer["counts"]["completion"], 0)
        self.assertGreater(answer["counts"]["prompt"], 0)
        # The strip saw it.
        self.browser.wait("document.querySelector('.gauge dd').textContent !== ''")
        # It is there when the page is opened again, which still has its key.
        self.browser.open(self.server.url + "/")
        self.browser.wait("models.length > 0")
        self.assertEqual(self.messages()[-1]["content"], answer["content"])
        # Another answer, the same question in other words, and none.
        self.click("Regenerate")
        self.browser.wait("answer === null && conversation.messages.length === 2")
        self.click("Edit")
        self.browser.wait("document.querySelector('.editor textarea') !== null")
        self.browser.run("document.querySelector('.editor textarea').value = '12-45'")
        send = "document.querySelector('.editor .strong').click()"
        self.browser.run("window.confirm = (text) => { window.asked = text; return window.yes; }; " + send)
        self.assertEqual(self.browser.run("window.asked"), "Send this message anew? It and the one after it are deleted.")
        self.assertEqual(self.messages()[0]["content"], "417+86")
        self.assertEqual(self.browser.run("document.querySelector('.editor textarea').value"), "12-45")
        self.browser.run("window.yes = true; " + send)
        self.browser.wait("answer === null && conversation.messages.at(-1).content.includes('-33')")
        self.assertEqual([each["role"] for each in self.messages()], ["user", "assistant"])
        self.click("Delete")
        self.assertEqual(len(self.messages()), 1)
        # Chromium writes each response of an error into its console, and that is all there is.
        for problem in self.browser.problems():
            self.assertIn("status of 401", problem)

    def test_more_answers_than_connections_say_that_they_wait(self):
        self.start()
        note = "views.at(-1).element.textContent.includes('Waits for a connection')"
        with self.server.paused():
            for number in range(6):
                self.browser.run(f"document.getElementById('new').click(); ask('{number}+1'); 0")
            self.assertFalse(self.browser.run(note))
            self.browser.wait(note)
            self.browser.run("openConversation([...answers.values()][4].conversation)")
            time.sleep(1.5)
            self.assertFalse(self.browser.run(note), "the fifth has a connection")
            self.browser.run("openConversation([...answers.values()][5].conversation)")
            self.assertTrue(self.browser.run(note))
        self.browser.wait("answers.size === 0")
        self.assertEqual(self.messages()[-1]["finish"], "stop")
        self.assertFalse(self.browser.run(note))

    def test_what_a_reload_or_the_connection_cut_goes_on(self):
        self.start()
        self.browser.run("conversation.settings = { temperature: 0 }")
        for name, request, cut, done, says in CUTS:
            with self.subTest(name):
                self.browser.run(f"window.real ??= call; call = {request}; ask('417+86'); 0")
                self.browser.wait("answer?.message.content === ' 5'")
                self.browser.run(cut)
                self.browser.wait(f"{done} && typeof strip !== 'undefined' && models.length > 0")
                self.assertEqual(self.messages()[-1]["content"], " 5")
                self.assertIn(says, self.browser.run("views.at(-1).element.textContent"))
                self.browser.run("if (window.real) call = real")
                self.click("Continue")
                self.browser.wait(
                    "answer === null && conversation.messages.at(-1).finish === 'stop'")
                self.assertEqual(self.messages()[-1]["content"].strip(), "503")
                self.assertNotIn("error", self.messages()[-1])

    def test_each_conversation_has_its_draft(self):
        self.start()
        self.ask("1+1")
        value = "document.getElementById('input').value"
        new = "document.getElementById('new').click()"
        first = "document.querySelector('#list button').click()"
        reload = "window.old = true; location.reload()"
        steps = ((None, "", "a"), (new, "", "b"), (first, "a", ""), (new, "b", "c"),
                 (reload, "bc", "d"), (first, "a", "e"), (reload, "ae", ""))
        for act, before, text in steps:
            with self.subTest(act=act):
                if act:
                    self.browser.run(act)
                    self.browser.wait("!window.old && typeof strip !== 'undefined'")
                self.assertEqual(self.browser.run(value), before)
                self.browser.run("document.getElementById('input').focus()")
                self.browser.type(text)
        # What was sent is none any more.
        self.browser.press("Enter", 13)
        self.browser.wait("answer === null && conversation.messages.length === 4")
        for act, left in ((new, "bcd"), (first, "")):
            self.browser.run(act)
            self.assertEqual(self.browser.run(value), left)

    def test_more_than_the_last_message_is_deleted_when_asked(self):
        self.start()
        self.browser.run(
            "conversation.messages = ['user', 'assistant', 'user', 'assistant'].map((role) =>"
            " ({ role, content: role })); showLog(); window.confirm = (text) => {"
            " window.asked = text; return window.yes; }")
        for at, yes, asked, left in DELETIONS:
            with self.subTest(at=at, yes=yes):
                self.browser.run(f"window.asked = ''; window.yes = {json.dumps(yes)};"
                                 " [...views[" + str(at) + "].actions.children].at(-1).click()")
                self.assertEqual(self.browser.run("window.asked"), asked)
                self.assertEqual(len(self.messages()), left)

    def test_a_cut_answer_goes_on(self):
        self.start()
        self.browser.run("conversation.settings = { temperature: 0, max_tokens: 2 }")
        answer = self.ask("417+86")
        self.assertEqual(answer["finish"], "length")
        self.assertEqual(answer["content"], " 5")
        self.click("Continue")
        self.browser.wait("answer === null && conversation.messages[1].content.length > 2")
        self.assertEqual(self.messages()[1]["content"], " 503")
        self.assertEqual(len(self.messages()), 2)

    def test_an_answer_goes_on_while_another_conversation_is_open(self):
        self.start()
        self.browser.run("conversation.settings = { temperature: 0 }; window.first = conversation")
        dots = "document.querySelectorAll('#list .answering').length"
        with self.server.paused():
            self.send("417+86")
            self.browser.wait("answer !== null")
            self.browser.run("document.getElementById('new').click()")
            self.assertEqual(self.messages(), [])
            self.assertTrue(self.browser.run("answer === null"))
            self.assertTrue(self.browser.run("document.getElementById('stop').hidden"))
            self.assertEqual(self.browser.run(dots), 1)
            self.send("12-45")
            self.browser.wait("answers.size === 2")
            self.assertEqual(self.browser.run(dots), 2)
            # Back in the first, which can be stopped and shows that it is under way.
            self.browser.run("window.second = conversation; openConversation(first)")
            self.assertFalse(self.browser.run("document.getElementById('stop').hidden"))
            self.assertTrue(self.browser.run("views[1].element.classList.contains('live')"))
        self.browser.wait("answers.size === 0")
        self.assertEqual(self.browser.run(dots), 0)
        self.assertIn("503", self.browser.run("document.getElementById('messages').textContent"))
        for name, says in (("first", "503"), ("second", "-33")):
            kept = json.loads(self.browser.run(
                f"localStorage.getItem('dovetail.conversation.' + {name}.id)"))
            self.assertEqual(kept["messages"][-1]["content"].strip(), says)
            self.assertEqual(kept["messages"][-1]["finish"], "stop")
        # The one that is deleted ends with its conversation, the other one does not.
        with self.server.paused():
            self.browser.run("regenerate(); openConversation(second); regenerate();"
                             " window.confirm = () => true;"
                             " document.getElementById('delete').click()")
            self.browser.wait("answers.size === 1 && answers.has(first.id)")
        self.browser.wait("answers.size === 0")
        self.assertEqual(self.browser.run("listConversations().length"), 1)
        self.assertIn("503", self.browser.run("first.messages.at(-1).content"))

    def test_the_key_can_be_given_later(self):
        self.browser.wait("document.getElementById('key').open")
        self.browser.run("document.getElementById('key-cancel').click()")
        self.browser.wait("document.getElementById('notice').textContent.includes('a key')")
        self.send("417+86")
        self.give_key()
        self.browser.wait("answer === null && conversation.messages.length === 2")
        self.browser.wait("models.length === 1")
        self.assertNotIn("error", self.messages()[-1])
        self.browser.wait("strip.events.length > 0")
        self.browser.run("document.getElementById('forget-key').click()")
        self.assertIsNone(self.browser.run("sessionStorage.getItem('dovetail.key')"))

    def test_it_works_without_storage(self):
        self.browser.call("Page.addScriptToEvaluateOnNewDocument", {"source": """
          for (const name of ["localStorage", "sessionStorage"])
            Object.defineProperty(window, name, { get() { throw new Error("no storage"); } });
        """})
        self.browser.open(self.server.url + "/")
        self.start()
        self.assertFalse(self.browser.run("document.getElementById('storage-note').hidden"))
        self.browser.run("conversation.settings = { temperature: 0 }")
        self.assertEqual(self.ask("417+86")["content"].strip(), "503")
        self.browser.run("document.getElementById('new').click()")
        self.assertEqual(self.messages(), [])
        self.browser.run("document.querySelector('#list button').click()")
        self.assertEqual(len(self.messages()), 2)

    def test_stop_and_errors_in_words(self):
        self.start()
        self.browser.run("conversation.settings = { top_p: 7 }")
        answer = self.ask("1+1")
        self.assertIn("top_p: 7 is out of range", answer["error"])
        # The end of sentence is unlikely to be drawn soon: there is something to stop.
        self.browser.run("conversation.settings = { temperature: 2, max_tokens: 400 };"
                         "conversation.messages.length = 1; generate()")
        self.browser.wait("answer === null || answer.message.content !== ''")
        self.browser.press("Escape", 27)
        self.browser.wait("answer === null")
        self.server.wait_for(lambda metrics: metrics["requests_running"] == 0)

    def test_settings_are_what_the_server_says(self):
        self.start()
        self.browser.run("openSettings()")
        shown = json.loads(self.browser.run(
            "JSON.stringify([...document.querySelectorAll('#sampling input')].map((field) =>"
            " [field.id, field.min, field.max, field.step, field.placeholder, field.title]))"))
        request = urllib.request.Request(self.server.url + "/v1/models",
                                         headers={"Authorization": f"Bearer {API_KEY}"})
        with urllib.request.urlopen(request) as answer:
            parameters = json.load(answer)["data"][0]["sampling_parameters"]
        self.assertEqual([row[0] for row in shown], [f"field-{each['name']}" for each in parameters])
        for row, each in zip(shown, parameters):
            self.assertEqual(float(row[1]), each.get("minimum", each.get("exclusiveMinimum")))
            self.assertEqual(float(row[2]), each["maximum"])
            self.assertEqual(row[3], "1" if each["type"] == "integer" else "any")
            self.assertEqual(row[4], str(each["default"]) if "default" in each else "not set")
            self.assertEqual(row[5], each["description"])
        # Out of range is not taken, an end that does not belong to the range either.
        problems = self.browser.run("""(() => {
          const valid = (name, value) => {
            const field = document.getElementById("field-" + name);
            field.value = value;
            field.dispatchEvent(new Event("input"));
            return field.checkValidity();
          };
          return [valid("top_p", 0), valid("top_p", 1.5), valid("top_p", 0.5), valid("seed", 1.5),
                  valid("seed", 3), valid("temperature", "")].join();
        })()""")
        self.assertEqual(problems, "false,false,true,false,true,true")
        self.browser.run("document.querySelector('#settings .strong').click()")
        self.browser.wait("conversation.settings.seed === 3")
        sent = json.loads(self.browser.run("JSON.stringify(requestOf(conversation))"))
        self.assertEqual((sent["top_p"], sent["seed"], "temperature" in sent), (0.5, 3, False))
        # What is no parameter, as of a file from elsewhere, is not sent.
        self.browser.run("conversation.settings.n = 5")
        self.assertNotIn("n", json.loads(self.browser.run("JSON.stringify(requestOf(conversation))")))

    def test_tools_are_checked_sent_and_answered(self):
        self.start()
        self.browser.run("openSettings()")
        self.browser.run("document.getElementById('tools').value = '{}'; checkTools()")
        self.assertIn("array", self.browser.run(
            "document.getElementById('tools-problem').textContent"))
        self.browser.run("document.getElementById('tools').value = ''; checkTools();"
                         "document.querySelector('#settings .strong').click()")
        deltas = [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a"'}},
                  {"index": 0, "function": {"arguments": ": 1}"}}]
        for delta in deltas:
            self.browser.run("{ conversation.messages[0] ??= { role: 'assistant', content: '',"
                             " counts: {} }; take(conversation.messages[0], { choices: [{ delta:"
                             f" {{ tool_calls: [{json.dumps(delta)}] }} }}] }}) }}")
        self.browser.run("showLog()")
        self.assertEqual(self.browser.run("document.querySelector('.call code').textContent"),
                         '{\n  "a": 1\n}')
        self.browser.run("document.querySelector('.results textarea').value = '2';"
                         "generate = () => {}; document.querySelector('.results').requestSubmit()")
        sent = json.loads(self.browser.run("JSON.stringify(requestOf(conversation).messages)"))
        self.assertEqual(sent[0]["tool_calls"][0]["function"]["arguments"], '{"a": 1}')
        self.assertEqual(sent[1], {"role": "tool", "tool_call_id": "c1", "content": "2"})

    def test_history_is_bounded_and_cleaned(self):
        self.start()
        self.browser.run(
            "for (let i = 0; i < 230; i += 1) { const each = newConversation(); each.changed = i;"
            " each.messages.push({ role: 'user', content: String(i) }); saveConversation(each); }")
        self.assertLessEqual(self.browser.run("localStorage.length"), 200)
        self.assertEqual(self.browser.run("listConversations()[0].messages[0].content"), "229")
        file = {"conversations": [
            {"id": "x", "changed": 1e9, "title": 5, "messages": [
                {"role": "user", "content": "hi", "onclick": "x"}, {"role": "alien"}, 7]},
            {"id": "../bad", "messages": []}, None]}
        self.assertEqual(
            self.imported(file), "1 conversation taken over; 2 left out, as they are no"
            " conversations. The history is full: its oldest conversation was removed.")
        taken = self.browser.run("JSON.stringify(conversations.get('x').messages)")
        self.assertEqual(json.loads(taken), [{"role": "user", "content": "hi"}])
        with self.assertRaisesRegex(RuntimeError, "not JSON"):
            self.browser.run("importText('{')")
        # None goes for an older one; the page says what went for a new one.
        old = {"id": "y", "changed": 1, "messages": []}
        self.assertEqual(self.imported({"conversations": [old]}),
                         "0 conversations taken over; 1 left out for want of space.")
        self.browser.run("document.getElementById('new').click()")
        self.ask("1+1")
        self.assertEqual(self.notice(),
                         "The history is full: its oldest conversation was removed.")

    def test_the_newer_of_two_is_kept_at_an_import(self):
        self.start()
        here = {"id": "x", "changed": 2000, "messages": [{"role": "user", "content": "here"}]}
        for changed, content, says in IMPORTS:
            with self.subTest(changed=changed):
                self.browser.run(f"saveConversation(cleanConversation({json.dumps(here)}))")
                file = {**here, "changed": changed,
                        "messages": [{"role": "user", "content": "file"}]}
                self.assertEqual(self.imported({"conversations": [file]}), says)
                for where in ("conversations.get('x')",
                              "JSON.parse(localStorage.getItem('dovetail.conversation.x'))"):
                    self.assertEqual(self.browser.run(f"{where}.messages[0].content"), content)

    def test_what_does_not_fit_removes_the_oldest_or_nothing(self):
        self.start()
        for name, size, fits, left in (("a", 1, True, "a"), ("b", 3e6, True, "ba"),
                                       ("c", 3e6, True, "c"), ("d", 6e6, False, "dc")):
            with self.subTest(name):
                self.assertEqual(self.browser.run(
                    f"saveConversation({{ id: {name!r}, changed: {ord(name)}, title: '',"
                    f" settings: {{}}, messages: [{{ role: 'user', content: 'x'.repeat({size})"
                    " }] }).fits"), fits)
                self.assertEqual(self.browser.run(
                    "listConversations().map((each) => each.id).join('')"), left)
        self.assertIsNotNone(self.browser.run("localStorage.getItem('dovetail.conversation.c')"))

    def test_it_fits(self):
        self.start()
        text = "\n\n".join(text for text, _ in LINKS + MARKDOWN) + "\n\n```\n" + "x" * 300 + "\n```"
        self.browser.run("conversation.messages = [{ role: 'user', content: 'y'.repeat(300) },"
                         f" {{ role: 'assistant', content: {json.dumps(text)} }}]; showLog()")
        for width in (1280, 800, 400, 320):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.browser.look(width, 800, dark)
                    self.assertEqual(
                        self.browser.run("document.documentElement.scrollWidth"), width)
                    self.assertLessEqual(
                        self.browser.run("document.documentElement.scrollHeight"), 800)
                    self.assertLessEqual(self.browser.run("log.scrollWidth - log.clientWidth"), 0)
                    # What is written can be read: 4.5 to 1, as WCAG has it.
                    ratio = self.browser.run("""{
                      const light = (color) => {
                        const [r, g, b] = color.match(/[0-9.]+/g).map((value) => value / 255)
                          .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                      };
                      const of = (query, name) =>
                        light(getComputedStyle(document.querySelector(query))[name]);
                      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                      const page = of("body", "backgroundColor");
                      Math.min(ratio(of("body", "color"), page), ratio(of(".soft", "color"), page),
                        ratio(of(".text a", "color"), page),
                        ratio(of("#send", "color"), of("#send", "backgroundColor")));
                    }""")
                    self.assertGreaterEqual(ratio, 4.5)


if __name__ == "__main__":
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped:
        print("e2e.page: Chromium is not installed (package chromium): the page was not looked at")
        sys.exit(SKIPPED)
