"""Talks with `dovetail chat` by pipes and by a terminal: chat_test.py BINARY SOURCE_DIR"""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
import unittest

from cases import BINARY, WithFolder

DEMO = pathlib.Path(sys.argv[2]).resolve() / "models" / "demo-arith"
LEFT, RIGHT, UP, HOME, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[H", "\x1b[3~"
ALT_ENTER, CTRL_C, CTRL_D, CTRL_R, BACKSPACE = "\x1b\r", "\x03", "\x04", "\x12", "\x7f"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
READY = "\x1b[?2004h"  # the editor reads
# The prompt ends within the reasoning.
THINKS = "{% for message in messages %}Q: {{ message.content }}=?\nA:{% endfor %}<think>{# </think> #}"


def pasted(text):
    return f"\x1b[200~{text}\x1b[201~"


class Piped(WithFolder):
    def talk(self, *lines, options=(), code=0):
        done = subprocess.run([BINARY, "chat", DEMO, "--temperature", "0", *options], input="".join(x + "\n" for x in lines),
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def messages(self, name="talk.json"):
        return [(m["role"], m["content"]) for m in json.loads((self.folder / name).read_text())["messages"]]

    def test_a_line_is_a_message(self):
        file = self.folder / "talk.json"
        # Nothing puts lines together here.
        done = self.talk("1+1\\", '"""2+2', "//x", f"/save {file}")
        contents = [content for role, content in self.messages() if role == "user"]
        self.assertEqual(contents, ["1+1\\", '"""2+2', "/x"])
        self.assertEqual(done.stderr, "")
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(done.stdout, "".join(text + "\n" for role, text in self.messages() if role == "assistant"))

    def test_system_messages_begin_anew(self):
        file = self.folder / "talk.json"
        done = self.talk("/system", "1+1", "/system be brief", "/system", "2+2", f"/save {file}", 'x', '/system ""', "/system")
        self.assertEqual(self.messages()[:2], [("system", "be brief"), ("user", "2+2")])
        self.assertEqual(done.stderr, "there is no system message\nbe brief\nthere is no system message\n")
        self.talk("/clear", "1+1", "/reset", f"/save! {file}", options=["--system", "kept"])
        self.assertEqual(self.messages(), [("system", "kept")])

    def test_undo_and_regen(self):
        file = self.folder / "talk.json"
        self.talk("1+1", "2+2", "/undo", "3+3", f"/save {file}")
        self.assertEqual([c for r, c in self.messages() if r == "user"], ["1+1", "3+3"])
        # At temperature 0 the answer again is the answer.
        once = self.talk("1+1").stdout
        self.assertEqual(self.talk("1+1", "/regen", f"/save! {file}").stdout, once * 2)
        self.assertEqual(self.messages(), [("user", "1+1"), ("assistant", once[:-1])])
        # Another seed may draw another answer.
        options = ["--temperature", "50", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "1", "--max-tokens", "8"]
        answers = subprocess.run([BINARY, "chat", DEMO, *options], input="1+1\n/regen\n/regen\n", capture_output=True,
                                 text=True, timeout=120, check=True).stdout
        once = subprocess.run([BINARY, "chat", DEMO, *options], input="1+1\n", capture_output=True, text=True, timeout=120,
                              check=True).stdout
        self.assertTrue(answers.startswith(once))
        self.assertNotEqual(answers, once * 3)

    def test_conversations_go_on(self):
        file = self.folder / "talk.json"
        whole = self.talk("1+1", "2+2", "3+3").stdout
        first = self.talk("1+1", f"/save {file}").stdout
        saved = json.loads(file.read_text())
        self.assertEqual(saved["model"], DEMO.name)
        self.assertEqual(saved["messages"][0], {"role": "user", "content": "1+1"})
        self.assertEqual(first + self.talk(f"/load {file}", "2+2", "3+3").stdout, whole)
        # An array alone is read as well, and a message without an answer can be answered.
        alone = self.write("alone.json", json.dumps(saved["messages"] + [{"role": "user", "content": "2+2"}]))
        self.assertEqual(first + self.talk(f"/load {alone}", "/regen", "3+3").stdout, whole)

    def test_settings(self):
        done = self.talk("/set max-tokens 1", "1+1", "/set max-tokens default", "/set stop", "/set top-k=3", r'/set stop "\n"')
        self.assertRegex(done.stderr, r'max-tokens +1\n\(the answer was cut: max-tokens is 1\)\nmax-tokens +0\n'
                                      r'stop +none\ntop-k +3\nstop +\["\\n"\]\n$')
        shown = self.talk("/set").stderr
        self.assertRegex(shown, r"(?m)^temperature +0$")
        for _, name in re.findall(r"(?m)^(--|  --)([a-z-]+) ", subprocess.run([BINARY, "chat", "--help"], text=True,
                                  capture_output=True, check=True).stdout.split("Sampling")[1].split("Engine")[0]):
            self.assertRegex(shown, rf"(?m)^{name} ")

    def test_a_file_is_not_replaced_unasked(self):
        file, other = self.folder / "talk.json", self.folder / "a b.json"
        self.talk("1+1", f'/save "{other}"', f'/load "{other}"')
        self.write("talk.json", "precious")
        done = self.talk("1+1", f"/save {file}", code=1)
        self.assertIn(f"{file}: the file exists, expected a new name; /save! {file} replaces what is in it", done.stderr)
        self.assertEqual(file.read_text(), "precious")
        # What a conversation was saved to or loaded from is its own, under any name.
        link = self.folder / "link.json"
        link.symlink_to(file)
        self.talk("1+1", f"/save! {file}", "2+2", f"/save {link}", "/undo", f"/save {file}", "3+3", f"/save {file}")
        self.assertEqual([c for r, c in self.messages() if r == "user"], ["1+1", "3+3"])
        self.talk(f"/load {file}", "4+4", f"/save {file}")
        self.assertEqual([c for r, c in self.messages() if r == "user"], ["1+1", "3+3", "4+4"])
        # Another conversation's it is not.
        self.assertIn("the file exists", self.talk(f"/load {file}", "/clear", f"/save {file}", code=1).stderr)

    def test_the_context_ends(self):
        message = "12+34+5+123123123123+23412341234"
        full = self.talk(message, message, message, options=["--max-model-len", "64", "--ignore-eos", "--max-tokens", "60"], code=1)
        ways = "; /undo, /clear or a larger --max-model-len (at most 512) makes room"
        self.assertIn(f"(the answer was cut: the context of 64 positions is full{ways})\n", full.stderr)
        self.assertRegex(full.stderr, r"the conversation has \d+ tokens, but the context has 64 positions, one of them for the answer"
                         + re.escape(ways))
        # What does not help is not said.
        alone = self.talk(message, options=["--max-context", "16"], code=1).stderr
        self.assertIn("for the answer; a larger --max-model-len (at most 512) makes room", alone)
        self.assertIn("; a shorter message fits", self.talk("1+" * 1000, code=1).stderr)
        self.assertIn("answer was cut: the context of 512 positions is full; /undo or /clear makes room",
                      self.talk("1+1", options=["--ignore-eos"]).stderr)
        self.assertIn("min-tokens: 60 do not fit behind a conversation of 41 tokens, expected at most 23",
                      self.talk(message, options=["--max-context", "64", "--min-tokens", "60"], code=1).stderr)

    def test_flags_are_true_or_false(self):
        for flag in ("--ignore-eos", "--no-pack"):
            done = self.talk(options=[f"{flag}=maybe"], code=2)
            self.assertIn(f"{flag}: 'maybe', expected true or false\n", done.stderr)
            self.talk(options=[f"{flag}=FALSE"])

    def test_bytes_go_unchanged(self):
        # The vocabulary's first tokens are the bytes.
        done = self.talk("1+1", options=["--logit-bias", "27=100", "--max-tokens", "3"])
        self.assertEqual(done.stdout, "\x1b\x1b\x1b\n")

    def test_reasoning_is_no_answer(self):
        file = self.folder / "talk.json"
        options = ["--chat-template", self.write("thinks.jinja", THINKS), "--max-tokens", "4"]
        done = self.talk("1+1", "/set max-tokens 2", "/regen", f"/save {file}", options=options)
        self.assertEqual(done.stdout, "\n\n")
        self.assertEqual(done.stderr.count("reasoned and gave no answer"), 2)
        answer = json.loads(file.read_text())["messages"][1]
        self.assertEqual(answer["content"], "")
        self.assertNotEqual(answer["reasoning_content"], "")

    def test_stats(self):
        done = self.talk("/stats", "1+1", "2+2", "/stats")
        self.assertTrue(done.stderr.startswith("nothing was answered yet\n"))
        self.assertRegex(done.stderr, r"(?m)^last answer +\d+ tokens, \d+\.\d tokens/s, first after \d+\.\d\d s$")
        self.assertRegex(done.stderr, r"(?m)^context +\d+ of \d+ tokens used")
        self.assertRegex(done.stderr, r"(?m)^in all +2 answers of \d+ tokens; ")

    def test_errors_end_a_script(self):
        no_json = self.write("no.json", "[1, hello]")
        bad = self.write("bad.json", '{"messages": [{"role": "user"}, {"content": "x"}]}')
        for line, message in [
            ("/hlep", "unknown command /hlep, did you mean /help"),
            ("/sys hi", "did you mean /system, "),
            ("/set temp 1", "did you mean temperature\n"),
            ("/set ignore-eos maybe", "ignore-eos: 'maybe', expected true or false\n"),
            ('/set stop "a"b"', "stop: '\"a\"b\"' is no JSON string"),
            (f"/load {no_json}", f"{no_json}: byte 5: it is no valid JSON, expected a JSON array of messages"),
            ("/frobnicate", "expected one of /help, /system"),
            ("/undo now", "/undo takes no argument, got 'now'"),
            ("/undo", "there is no message yet"),
            ("/regen", "there is no message yet"),
            ("/save", "/save: expected the name of a file"),
            (f"/save {self.folder}/no/file", "No such file"),
            ("/load /nowhere.json", "/nowhere.json"),
            (f"/load {bad}", "messages[1].role"),
            ("/set temprature 1", "did you mean temperature"),
            ("/set temprature", "did you mean temperature"),
            ("/set top-p 2", "top-p: '2' is out of range"),
        ]:
            with self.subTest(line=line):
                done = self.talk(line, "1+1", code=1)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stdout, "")
        help_text = self.talk("/help", "/exit", "1+1")
        self.assertEqual(help_text.stdout, "")
        for name in ("/help", "/system", "/set", "/save", "/load", "/regen", "/undo", "/stats", "/clear", "/exit"):
            self.assertRegex(help_text.stderr, rf"(?m)^{name} ")
        self.assertLessEqual(max(map(len, help_text.stderr.splitlines())), 90)


class Terminal(WithFolder):
    """A person at a terminal of 30 lines and 100 columns."""

    def setUp(self):
        super().setUp()
        self.program = self.terminal = None
        self.seen = ""

    def start(self, *options, model=DEMO, **environment):
        self.seen = ""
        environment = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(self.folder), "HOME": str(self.folder), **environment}
        self.program, self.terminal = pty.fork()
        if self.program == 0:
            os.execve(BINARY, [str(BINARY), "chat", str(model), "--temperature", "0", *options], environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.addCleanup(self.stop)

    def stop(self):
        if self.program is not None:
            os.kill(self.program, signal.SIGKILL)
            self.wait()

    def wait(self):
        _, status = os.waitpid(self.program, 0)
        os.close(self.terminal)
        self.program = None
        return os.waitstatus_to_exitcode(status)

    def read(self, limit):
        """What comes within `limit` seconds; None where the program has ended."""
        if not select.select([self.terminal], [], [], limit)[0]:
            return ""
        try:
            return os.read(self.terminal, 1 << 16).decode(errors="replace") or None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None

    def until(self, text):
        """Reads on until `text` is there, and returns what came with it."""
        deadline = time.monotonic() + 60
        while text not in self.seen:
            more = self.read(1)
            self.assertIsNotNone(more, f"the program ended before {text!r}:\n{self.seen}")
            self.assertLess(time.monotonic(), deadline, f"{text!r} did not come:\n{self.seen}")
            self.seen += more
        end = self.seen.index(text) + len(text)
        came, self.seen = self.seen[:end], self.seen[end:]
        return came

    def keys(self, text):
        os.write(self.terminal, text.encode())

    def type(self, text):
        """Types when the editor is ready for it."""
        self.until(READY)
        self.keys(text)

    def end(self):
        self.type(CTRL_D)
        while (more := self.read(60)) is not None:
            self.assertNotEqual(more, "", "the program does not end")
        return self.wait()

    def messages(self):
        file = self.folder / "talk.json"
        self.type(f"/save {file}\r")
        self.until("saved ")
        return [m["content"] for m in json.loads(file.read_text())["messages"] if m["role"] == "user"]

    def test_keys_edit(self):
        self.start()
        self.type("9+8" + LEFT * 3 + "1" + RIGHT + "7" + "\r")
        self.type("xé€😀" + LEFT + BACKSPACE + "ü" + HOME + DELETE + "\r")
        self.assertEqual(self.messages(), ["197+8", "éü😀"])
        self.assertEqual(self.end(), 0)

    def test_several_lines(self):
        self.start()
        self.type(pasted("a\r\rb\\\rc\r") + "\r")
        self.type(pasted("d\ne") + "f\r")
        self.type("g\\\r")
        self.type("h" + ALT_ENTER + "i\r")
        self.type('"""\r')
        self.type("/help\r")
        self.type('j"""\r')
        self.assertEqual(self.messages(), ["a\n\nb\\\nc", "d\nef", "g\nh\ni", "/help\nj"])
        self.assertEqual(self.end(), 0)

    def test_interrupts_at_the_prompt(self):
        self.start()
        self.type("never said" + CTRL_C)
        self.type('"""never said\r')
        self.type(CTRL_C)
        self.assertNotIn("Ctrl-D", self.until(READY))
        self.keys("1+1\r")
        self.assertEqual(self.messages(), ["1+1"])
        self.assertEqual(self.end(), 0)
        self.start()
        self.type(CTRL_C)
        self.until("Ctrl-D or /exit ends")
        self.type(CTRL_C)
        while self.read(60):
            pass
        self.assertEqual(self.wait(), 128 + signal.SIGINT)

    def test_an_interrupt_keeps_what_was_said(self):
        # A context that takes long to fill.
        model = self.folder / "model"
        model.mkdir()
        for file in DEMO.iterdir():
            (model / file.name).symlink_to(file)
        config = json.loads((DEMO / "config.json").read_text())
        (model / "config.json").unlink()
        (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 20}))
        self.start("--ignore-eos", "--max-model-len", "200000", model=model)
        self.type("1+1\r")
        self.until("\x1b[?2004l")
        while len(self.seen) < 10:
            self.seen += self.read(60)
        self.keys(CTRL_C)
        self.until("stopped: ")
        self.type("/set max-tokens 1\r")
        self.type("2+2\r")
        self.until("first after")
        self.assertEqual(self.messages(), ["1+1", "2+2"])
        talk = json.loads((self.folder / "talk.json").read_text())["messages"]
        self.assertGreater(len(talk[1]["content"]), 5)
        self.assertEqual(self.end(), 0)

    def test_the_history_is_kept(self):
        self.start()
        self.type("12+34\r")
        self.type("two\\\r")
        self.type("lines\r")
        self.assertEqual(self.end(), 0)
        file = self.folder / "dovetail" / "chat_history"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        self.start()
        self.type(UP + "\r")
        self.type(UP + UP + "5\r")
        self.type(CTRL_R + "12+" + "\r")
        self.until(READY)
        self.keys("\r")
        self.assertEqual(self.messages()[:2], ["two\nlines", "12+345"])
        self.assertEqual(self.end(), 0)

    def test_tab_completes_commands(self):
        self.start()
        self.type("/sta\t\r")
        self.until("nothing was answered yet")
        self.type("/s\t" + "ys\t" + "be brief\r")
        self.until("a new conversation with this system message")
        self.assertEqual(self.end(), 0)

    def test_tab_completes_settings_and_their_values(self):
        self.start(NO_COLOR="1")
        self.type("/se\tig\tf\t\r")
        self.until("ignore-eos                false")
        self.type("/set t\t")  # temperature, top-k and top-p begin alike: they are shown, and what was typed stays
        self.until("temperature  top-k  top-p\r\n")
        self.until("> /set t")
        self.keys("e\t0.25\r")
        self.until("temperature               0.25")
        self.type("/set temperature \t\r")
        self.until("temperature               1\r\n")  # "default": what the command line gave is taken back
        self.assertEqual(self.end(), 0)

    def test_the_window_changes(self):
        self.start(NO_COLOR="1")
        self.type("12")
        self.until("2")
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
        os.kill(self.program, signal.SIGWINCH)
        # What was drawn is cleared ahead of what is drawn.
        self.until("\r\x1b[J> 12")
        self.keys("+34\r")
        self.type("x" * 50)
        self.until("x" * 38)
        self.until("x" * 12)  # libedit goes on in the next row
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 38, 0, 0))
        self.until("\r\x1b[1A\x1b[J> xxx")
        self.keys("\r")
        self.assertEqual(self.messages(), ["12+34", "x" * 50])
        self.assertEqual(self.end(), 0)

    def test_it_stops_and_goes_on(self):
        self.start()
        self.type("12")
        self.until("2")
        # Ctrl-Z has no effect on a program that no shell started.
        os.kill(self.program, signal.SIGSTOP)
        os.waitpid(self.program, os.WUNTRACED)
        # As a shell does.
        modes = termios.tcgetattr(self.terminal)
        modes[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)
        os.kill(self.program, signal.SIGCONT)
        self.until("12")
        self.keys(LEFT + "0\r")
        self.assertEqual(self.messages(), ["102"])
        self.assertEqual(self.end(), 0)

    def test_colours(self):
        self.start()
        self.type("1+1\r")
        self.assertIn("\x1b[2m", self.until("tokens/s"))
        self.assertEqual(self.end(), 0)
        self.start(NO_COLOR="1")
        self.type("1+1\r")
        self.assertNotRegex(self.until("tokens/s"), "\x1b\\[[0-9;]*m")
        self.assertEqual(self.end(), 0)

    def test_control_characters_are_shown(self):
        self.start("--logit-bias", "27=100", "--max-tokens", "3", NO_COLOR="1")
        self.type("1+1\r")
        self.assertIn("␛␛␛", self.until("first after"))
        self.assertEqual(self.end(), 0)

    def test_names_of_a_model_are_shown(self):
        model = self.folder / "a\x1b]0;title\x07b"
        model.mkdir()
        for file in DEMO.iterdir():
            (model / file.name).symlink_to(file)
        self.start(model=model)
        self.assertIn("a␛]0;title␇b: ", self.until("/help"))
        self.assertEqual(self.end(), 0)
        # In a pipe they are what they are.
        report = subprocess.run([BINARY, "inspect", model], capture_output=True, text=True, check=True).stdout
        self.assertIn("\x1b]0;title\x07", report)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(BINARY, [str(BINARY), "inspect", str(model)])
        shown = b""
        with contextlib.suppress(OSError):
            while more := os.read(terminal, 1 << 16):
                shown += more
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIn("a␛]0;title␇b", shown.decode())
        self.assertNotIn(b"\x1b", shown)

    def test_reasoning_is_dimmed(self):
        self.start("--chat-template", self.write("thinks.jinja", THINKS), "--max-tokens", "4")
        self.type("1+1\r")
        seen = self.until("first after")
        self.assertRegex(seen, "\x1b\\[2m[^\x1b]+\x1b\\[0m\r\n")
        self.assertEqual(self.end(), 0)

    def test_a_dumb_terminal_has_lines(self):
        self.start(TERM="dumb")
        self.until("> ")
        self.keys("1+1\n")
        self.assertNotIn("\x1b", self.until("tokens/s") + self.until("> "))
        self.keys(CTRL_D)
        while self.read(60):
            pass
        self.assertEqual(self.wait(), 0)

    def test_the_first_answer_is_not_called_the_same_again(self):
        asked = self.write("asked.json", '[{"role": "user", "content": "1+1"}]')
        self.start()
        self.type(f"/load {asked}\r")
        self.type("/regen\r")
        self.assertNotIn("temperature 0", self.until("first after"))
        self.type("/regen\r")
        self.assertIn("temperature 0 gives the same answer again", self.until("first after"))
        self.assertEqual(self.end(), 0)

    def test_errors_do_not_end_it(self):
        self.start()
        self.type("/save /nowhere/file\r")
        self.until("/nowhere/file: No such file")
        self.type("/hlep\r")
        self.until("did you mean /help")
        self.assertEqual(self.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
