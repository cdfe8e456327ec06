#include "cli/line_editor.h"

#include <fmt/core.h>
#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "cli/signals.h"
#include "text/utf8.h"

namespace dovetail::cli {
namespace {

constexpr wchar_t kEscapeMark = L'\1';  // around what in a prompt takes no place
constexpr char32_t kReplacement = 0xfffd;
constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
constexpr int kHistorySize = 2000;
constexpr int kPatience = 100;  // milliseconds until signals are looked for again

std::wstring widened(std::string_view text) {
  std::wstring wide;
  const std::string valid = text::repair_utf8(text);
  for (std::size_t at = 0; at < valid.size();) {
    const text::CodePoint point = text::code_point_at(valid, at);
    wide += static_cast<wchar_t>(point.value);
    at += point.size;
  }
  return wide;
}

std::string narrowed(std::wstring_view wide) {
  std::string text;
  for (const wchar_t c : wide) text::append_utf8(text, static_cast<char32_t>(c));
  return text;
}

// Set by a handler of SIGWINCH and SIGCONT.
volatile std::sig_atomic_t resized = 0, continued = 0;

void note_terminal(int number) {
  if (number == SIGWINCH) {
    resized = 1;
  } else {
    continued = 1;
  }
}

// Columns of the terminal; 0 where it does not say.
std::size_t window_columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// How many rows lie between the beginning of `text` and its end on a terminal that breaks lines.
std::size_t rows_above_end(std::wstring_view text, std::size_t columns) {
  constexpr std::size_t kTab = 8;
  std::size_t rows = 0, column = 0;
  bool escape = false;
  for (const wchar_t c : text) {
    if (c == kEscapeMark) escape = !escape;
    if (c == kEscapeMark || escape) continue;
    const int width = wcwidth(c);
    const std::size_t wide = c == L'\t'   ? kTab - column % kTab
                             : width >= 0 ? static_cast<std::size_t>(width)
                                          : 2;  // libedit has ^A for what is not printable
    if (c == L'\n' || column + wide > columns) {
      ++rows;
      column = 0;
    }
    if (c != L'\n') column += wide;
  }
  return column == columns ? rows + 1 : rows;  // libedit goes on in the next at once
}

}  // namespace

TypedLine read_plain_line() {
  char* buffer = nullptr;
  std::size_t capacity = 0;
  errno = 0;
  const ssize_t length = getline(&buffer, &capacity, stdin);
  TypedLine line;
  if (length >= 0) {
    line.text = std::string(buffer, static_cast<std::size_t>(length));
    line.text->erase(line.text->find_last_not_of("\r\n") + 1);
  } else if (InterruptGuard::signal() != 0) {
    std::clearerr(stdin);
    line.interrupted = true;
  }
  std::free(buffer);
  return line;
}

struct LineEditor::Impl {
  std::vector<std::string> lines;  // that Tab completes
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  std::wstring prompt;
  bool interrupted = false, cleared = false;
  std::size_t columns = 0;  // when the line was last drawn
  struct sigaction old_resize = {}, old_continue = {};

  static Impl& of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }

  static wchar_t* get_prompt(EditLine* editor) { return of(editor).prompt.data(); }

  // A character of the terminal. libedit's own reader goes on after a signal.
  static int get_character(EditLine* editor, wchar_t* character) {
    std::string bytes;
    for (;;) {
      if (InterruptGuard::signal() != 0) {
        const LineInfoW* line = el_wline(editor);
        of(editor).interrupted = true;
        of(editor).cleared = line->lastchar != line->buffer;
        return -1;
      }
      if (resized != 0 || continued != 0) redraw(editor);
      // A signal may come just before the waiting begins.
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      if (::poll(&input, 1, kPatience) <= 0) continue;
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count == 0) return 0;
      if (count < 0) return -1;
      bytes += byte;
      const auto lead = static_cast<unsigned char>(bytes.front());
      const std::size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      if (bytes.size() < size) continue;
      const bool valid = text::is_valid_utf8(bytes);
      *character = static_cast<wchar_t>(valid ? text::code_point_at(bytes, 0).value : kReplacement);
      return 1;
    }
  }

  // Goes back to the beginning of what is typed and clears it: libedit draws a line anew where the
  // cursor is. Some terminals break lines anew when they change and others do not: rather a rest of
  // the line stays than that what stands above it goes.
  static void clear_drawn(EditLine* editor) {
    Impl& self = of(editor);
    const std::size_t old_columns = std::exchange(self.columns, window_columns());
    if (old_columns == 0 || self.columns == 0) return;
    const LineInfoW* line = el_wline(editor);
    const std::wstring before = self.prompt + std::wstring(line->buffer, line->cursor);
    const std::size_t rows =
        std::min(rows_above_end(before, old_columns), rows_above_end(before, self.columns));
    std::fputs("\r", stdout);
    if (rows > 0) fmt::print("\x1b[{}A", rows);
    std::fputs("\x1b[J", stdout);
  }

  static void redraw(EditLine* editor) {
    if (continued == 0 && resized != 0) clear_drawn(editor);
    if (std::exchange(continued, 0) != 0) {
      // libedit thinks that the terminal is as it left it; a shell has changed it meanwhile.
      el_set(editor, EL_PREP_TERM, 0);
      el_set(editor, EL_PREP_TERM, 1);
    }
    if (std::exchange(resized, 0) != 0) el_resize(editor);
    el_set(editor, EL_REFRESH);
  }

  static unsigned char insert_line_break(EditLine* editor, wint_t) {
    return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
  }

  static unsigned char paste(EditLine* editor, wint_t) {
    constexpr std::wstring_view kEnd = L"\x1b[201~";
    std::wstring text;
    while (!text.ends_with(kEnd)) {
      wchar_t next = 0;
      if (el_wgetc(editor, &next) != 1) return CC_EOF;
      // A line break comes as the Enter key's character, or as both.
      if (next == L'\n' && text.ends_with(L'\r')) continue;
      text += next;
    }
    text.resize(text.size() - kEnd.size());
    std::replace(text.begin(), text.end(), L'\r', L'\n');
    while (text.ends_with(L'\n')) text.pop_back();  // it is sent by the Enter key
    return text.empty() || el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  // The lines that begin like this, each once and up to the end of the word that comes next.
  static std::vector<std::string> next_words(const std::vector<std::string>& lines,
                                             const std::string& begun) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (begun.empty() || !line.starts_with(begun)) continue;
      std::string word = line.substr(0, line.find(' ', begun.size()));
      if (std::find(found.begin(), found.end(), word) == found.end())
        found.push_back(std::move(word));
    }
    return found;
  }

  // Adds what all lines have in common that begin like this one, as far as their next word; where
  // that is nothing, shows the words.
  static unsigned char complete(EditLine* editor, wint_t) {
    const LineInfoW* line = el_wline(editor);
    if (line->cursor != line->lastchar) return CC_ERROR;
    const std::string begun = narrowed({line->buffer, line->lastchar});
    const std::vector<std::string> next = next_words(of(editor).lines, begun);
    if (next.empty()) return CC_ERROR;
    std::string common = next.front();
    for (const std::string& word : next) {
      common.erase(std::mismatch(common.begin(), common.end(), word.begin(), word.end()).first,
                   common.end());
    }
    std::string rest = common.substr(begun.size());
    if (next.size() == 1) rest += ' ';
    if (rest.empty()) {
      std::string shown;
      for (const std::string& each : next) shown += each.substr(each.rfind(' ') + 1) + "  ";
      shown.erase(shown.find_last_not_of(' ') + 1);
      std::fputs(("\n" + shown + "\n").c_str(), stdout);
      std::fflush(stdout);
      return CC_REDISPLAY;
    }
    return el_winsertstr(editor, widened(rest).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  bool open() {
    editor = el_init("dovetail", stdin, stdout, stderr);
    history = history_winit();
    if (editor == nullptr || history == nullptr) return false;
    HistEventW event;
    history_w(history, &event, H_SETSIZE, kHistorySize);
    history_w(history, &event, H_SETUNIQUE, 1);  // what is typed again and again is found once
    el_set(editor, EL_CLIENTDATA, this);
    el_wset(editor, EL_EDITOR, L"emacs");
    el_wset(editor, EL_GETCFN, get_character);
    el_wset(editor, EL_PROMPT_ESC, get_prompt, kEscapeMark);
    el_wset(editor, EL_HIST, history_w, history);
    el_wset(editor, EL_ADDFN, L"line-break", L"Insert a line break", insert_line_break);
    el_wset(editor, EL_ADDFN, L"paste", L"Insert what is pasted", paste);
    el_wset(editor, EL_ADDFN, L"complete", L"Complete a command", complete);
    el_source(editor, nullptr);
    constexpr std::pair<const wchar_t*, const wchar_t*> kKeys[] = {
        {L"\\e[200~", L"paste"},        {L"\\e\\r", L"line-break"},
        {L"\\e\\n", L"line-break"},     {L"\\t", L"complete"},
        {L"^R", L"em-inc-search-prev"}, {L"\\e[H", L"ed-move-to-beg"},
        {L"\\e[F", L"ed-move-to-end"},  {L"\\e[1~", L"ed-move-to-beg"},
        {L"\\e[4~", L"ed-move-to-end"}, {L"\\e[3~", L"ed-delete-next-char"},
        {L"\\e[1;5C", L"em-next-word"}, {L"\\e[1;5D", L"ed-prev-word"},
    };
    for (const auto& [key, function] : kKeys) el_wset(editor, EL_BIND, key, function, nullptr);
    return true;
  }

  ~Impl() {
    if (editor != nullptr) el_end(editor);
    if (history != nullptr) history_wend(history);
  }
};

LineEditor::LineEditor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LineEditor::~LineEditor() = default;

std::unique_ptr<LineEditor> LineEditor::create(std::vector<std::string> lines) {
  const char* terminal = std::getenv("TERM");
  const std::string_view kind = terminal == nullptr ? "" : terminal;
  if (kind.empty() || kind == "dumb") return nullptr;
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return nullptr;
  // libedit goes by the locale, which may be any; models write UTF-8.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  auto impl = std::make_unique<Impl>();
  impl->lines = std::move(lines);
  if (!impl->open()) return nullptr;
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(impl)));
}

TypedLine LineEditor::read(std::string_view prompt) {
  Impl& impl = *impl_;
  impl.prompt = widened(prompt);
  impl.interrupted = impl.cleared = false;
  impl.columns = window_columns();
  struct sigaction action = {};
  action.sa_handler = note_terminal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, &impl.old_resize);
  sigaction(SIGCONT, &action, &impl.old_continue);
  // Before the prompt is shown, so that Ctrl-D is a key from then on.
  el_set(impl.editor, EL_PREP_TERM, 1);
  std::fwrite(kPasteOn.data(), 1, kPasteOn.size(), stdout);
  int count = 0;
  const wchar_t* wide = el_wgets(impl.editor, &count);
  std::fwrite(kPasteOff.data(), 1, kPasteOff.size(), stdout);
  if (wide == nullptr) std::fputc('\n', stdout);
  std::fflush(stdout);
  sigaction(SIGWINCH, &impl.old_resize, nullptr);
  sigaction(SIGCONT, &impl.old_continue, nullptr);
  TypedLine line;
  line.interrupted = impl.interrupted;
  line.cleared = impl.cleared;
  if (line.interrupted || wide == nullptr || count < 0) return line;
  line.text = narrowed({wide, static_cast<std::size_t>(count)});
  if (line.text->ends_with('\n')) line.text->pop_back();
  return line;
}

void LineEditor::add_history(const std::string& entry) {
  HistEventW event;
  history_w(impl_->history, &event, H_ENTER, widened(entry).c_str());
}

}  // namespace dovetail::cli
