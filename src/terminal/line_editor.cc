#include "terminal/line_editor.h"

#include <fmt/format.h>
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>
#include <vector>

#include "terminal/characters.h"
#include "terminal/history.h"
#include "terminal/wrapper.h"

namespace anabranch::terminal {
namespace {

static_assert(sizeof(wchar_t) == sizeof(char32_t), "libedit's characters are code points here");

constexpr size_t kMostPasted = 4u << 20;  // code points; more are dropped
constexpr int kPollMs =
    200;  // polling, because the signal of Ctrl-C may reach another thread than the one that waits

std::atomic<bool> resized{false}, resumed{false};

const char32_t* code_points(const wchar_t* text) {
  return reinterpret_cast<const char32_t*>(text);
}

std::wstring wide(const std::string& utf8) {
  const std::u32string text = decode(utf8);
  return {text.begin(), text.end()};
}

std::u32string_view line_of(EditLine* edit, size_t& cursor) {
  const LineInfoW* line = el_wline(edit);
  cursor = static_cast<size_t>(line->cursor - line->buffer);
  return {code_points(line->buffer), static_cast<size_t>(line->lastchar - line->buffer)};
}

// The number of additional rows, beside the first, that these cells take.
size_t rows_below(size_t cells, size_t width) {
  return width > 0 && cells > 0 ? (cells - 1) / width : 0;
}

enum class Side { left, right };

// The number of code points of the character on that side of the cursor; 0: none.
int code_points_at(EditLine* edit, Side side) {
  size_t cursor;
  const auto line = line_of(edit, cursor);
  return static_cast<int>(side == Side::left ? length_before(line, cursor) : length_after(line, cursor));
}

template <Side side>
unsigned char move_cursor(EditLine* edit, int) {
  const int n = code_points_at(edit, side);
  if (n == 0) return CC_ERROR;
  el_cursor(edit, side == Side::left ? -n : n);
  return CC_CURSOR;
}

template <Side side>
unsigned char delete_character(EditLine* edit, int) {
  const int n = code_points_at(edit, side);
  if (n == 0) return CC_ERROR;
  if (side == Side::right) el_cursor(edit, n);
  el_deletestr(edit, n);  // the code points before the cursor
  return CC_REFRESH;
}

// Ctrl-D: on an empty line, ends the input.
unsigned char delete_or_leave(EditLine* edit, int key) {
  size_t cursor;
  return line_of(edit, cursor).empty() ? CC_EOF : delete_character<Side::right>(edit, key);
}

unsigned char new_line(EditLine* edit, int) {
  return el_winsertstr(edit, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Whether the bytes are a UTF-8 character, or cannot become one.
bool is_whole(const std::string& bytes) {
  if (bytes.empty()) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const size_t wanted = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 1;
  return bytes.size() >= wanted || !std::ranges::all_of(bytes.substr(1), continues);
}

// Text between ESC [200~ and ESC [201~ is pasted as a block, whichever keys it contains.
unsigned char paste(EditLine* edit, int) {
  constexpr std::wstring_view kEnd = L"\033[201~";
  std::wstring text, last;
  while (last != kEnd) {
    wchar_t c;
    if (el_wgetc(edit, &c) != 1) return CC_EOF;
    if (text.size() < kMostPasted) text += c;
    last += c;
    if (last.size() > kEnd.size()) last.erase(0, 1);
  }
  if (text.ends_with(kEnd)) text.resize(text.size() - kEnd.size());
  std::wstring clean;
  for (const wchar_t one : text) {
    if (one == L'\r' || one == L'\n') clean += L'\n';
    if (one == L'\t' || (one >= L' ' && one != 0x7F)) clean += one;
  }
  if (clean.empty()) return CC_REFRESH;
  return el_winsertstr(edit, clean.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

}  // namespace

struct LineEditor::Impl {
  Impl(const std::string& path, const std::atomic<bool>& flag) : history_path(path), interrupt(flag) {}

  // The next code point of the terminal's UTF-8, for libedit: 1, 0 at the end of input, -1 when interrupted.
  int get(EditLine* edit, wchar_t* out) {
    std::string bytes = std::exchange(held_byte, {});
    for (;;) {
      if (is_whole(bytes)) {
        // A byte that does not continue the incomplete character is kept for the next call.
        if (bytes.size() > 1 && !continues(bytes.back())) {
          held_byte = bytes.back();
          bytes.pop_back();
        }
        *out = static_cast<wchar_t>(decode(bytes).front());
        return 1;
      }
      if (interrupt) return -1;
      if (resumed.exchange(false)) {  // the shell's `fg` resumed us; the shell uses another terminal mode
        el_wset(edit, EL_PREP_TERM, 0);
        el_wset(edit, EL_PREP_TERM, 1);
        std::fputs("\033[?2004h", stdout);
        el_wset(edit, EL_REFRESH);
      }
      if (resized.exchange(false)) {
        clear_shown();
        el_resize(edit);
        el_wset(edit, EL_REFRESH);
      }
      pollfd input{STDIN_FILENO, POLLIN, 0};
      const int ready = ::poll(&input, 1, kPollMs);
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      char byte;
      const ssize_t n = ready < 0 ? -1 : ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return static_cast<int>(n);
      bytes += byte;
    }
  }

  // Moves to the beginning of the prompt and clears everything from there, because libedit only draws anew.
  // After the terminal's width has changed, some terminals have wrapped the line anew and others have not.
  // Rows are counted at the wider of the two widths, so that nothing above the prompt is lost; at worst a row
  // of the old line stays.
  void clear_shown() {
    const size_t now = terminal_width(), width = std::max(now, std::exchange(shown_width, now));
    size_t cursor, rows = 0, begin = 0;
    const auto line = line_of(edit, cursor);
    std::u32string before(code_points(prompt.data()), prompt.size());
    before += line.substr(0, cursor);
    for (size_t end; (end = before.find(U'\n', begin)) != before.npos; begin = end + 1)
      rows += 1 + rows_below(cells(std::u32string_view(before).substr(begin, end - begin)), width);
    rows += rows_below(cells(std::u32string_view(before).substr(begin)) + 1, width);  // including the cursor
    if (rows > 0) std::fputs(fmt::format("\033[{}A", rows).c_str(), stdout);
    std::fputs("\r\033[J", stdout);
  }

  void bind() const {
    const auto add = [&](const wchar_t* name, unsigned char (*function)(EditLine*, int),
                         std::initializer_list<const wchar_t*> keys) {
      el_wset(edit, EL_ADDFN, name, L"", function);
      for (const wchar_t* key : keys) el_wset(edit, EL_BIND, key, name, nullptr);
    };
    add(L"character-left", move_cursor<Side::left>, {L"^B", L"\\e[D", L"\\eOD"});
    add(L"character-right", move_cursor<Side::right>, {L"^F", L"\\e[C", L"\\eOC"});
    add(L"delete-left", delete_character<Side::left>, {L"^H", L"^?"});
    add(L"delete-right", delete_character<Side::right>, {L"\\e[3~"});
    add(L"delete-or-leave", delete_or_leave, {L"^D"});
    add(L"new-line", new_line, {L"\\e^M", L"\\e^J"});
    add(L"paste", paste, {L"\\e[200~"});
    constexpr const wchar_t* kOwn[][2] = {
        {L"\\e[A", L"ed-prev-history"}, {L"\\eOA", L"ed-prev-history"}, {L"\\e[B", L"ed-next-history"},
        {L"\\eOB", L"ed-next-history"}, {L"\\e[H", L"ed-move-to-beg"},  {L"\\eOH", L"ed-move-to-beg"},
        {L"\\e[1~", L"ed-move-to-beg"}, {L"\\e[F", L"ed-move-to-end"},  {L"\\eOF", L"ed-move-to-end"},
        {L"\\e[4~", L"ed-move-to-end"}, {L"^R", L"em-inc-search-prev"}, {L"\\e[1;5D", L"ed-prev-word"},
        {L"\\e[1;5C", L"em-next-word"}, {L"^W", L"ed-delete-prev-word"}};
    for (const auto& [key, command] : kOwn) el_wset(edit, EL_BIND, key, command, nullptr);
  }

  size_t shown_width = 0;  // width of the terminal when the line was drawn
  std::string held_byte;   // a byte that was read but does not belong to the character before it
  std::string history_path;
  const std::atomic<bool>& interrupt;
  std::wstring prompt;
  EditLine* edit = nullptr;
  HistoryW* history = nullptr;
};

namespace {

template <class Impl>
Impl& impl_of(EditLine* edit) {
  void* data = nullptr;
  el_wget(edit, EL_CLIENTDATA, &data);
  return *static_cast<Impl*>(data);
}

}  // namespace

LineEditor::LineEditor(const std::string& history, const std::atomic<bool>& interrupt)
    : impl_(std::make_unique<Impl>(history, interrupt)) {
  use_utf8();
  Impl& i = *impl_;
  i.edit = el_init("anabranch", stdin, stdout, stderr);
  i.history = history_winit();
  HistEventW event;
  history_w(i.history, &event, H_SETSIZE, static_cast<int>(kHistoryLines));
  history_w(i.history, &event, H_SETUNIQUE, 1);
  if (!history.empty()) {
    const auto lines = read_history(history);
    trim_history(history, lines);
    for (const std::string& line : lines) history_w(i.history, &event, H_ENTER, wide(line).c_str());
  }
  el_wset(i.edit, EL_CLIENTDATA, &i);
  el_wset(i.edit, EL_EDITOR, L"emacs");
  el_wset(i.edit, EL_HIST, history_w, i.history);
  using Prompt = wchar_t* (*)(EditLine*);
  using Get = int (*)(EditLine*, wchar_t*);
  const Prompt prompt = [](EditLine* edit) { return impl_of<Impl>(edit).prompt.data(); };
  const Get get = [](EditLine* edit, wchar_t* out) { return impl_of<Impl>(edit).get(edit, out); };
  el_wset(i.edit, EL_PROMPT, prompt);
  el_wset(i.edit, EL_GETCFN, get);
  i.bind();
  el_source(i.edit, nullptr);  // ~/.editrc
  struct sigaction action {};
  action.sa_handler = [](int) { resized = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGWINCH, &action, nullptr);
  action.sa_handler = [](int) { resumed = true; };
  sigaction(SIGCONT, &action, nullptr);
}

LineEditor::~LineEditor() {
  history_wend(impl_->history);
  el_end(impl_->edit);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  impl_->prompt = wide(prompt);
  impl_->shown_width = terminal_width();
  resumed = false;
  std::fputs("\033[?2004h", stdout);
  std::fflush(stdout);
  int n = 0;
  const wchar_t* line = el_wgets(impl_->edit, &n);
  std::fputs("\033[?2004l", stdout);
  if (!line || n <= 0) {
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return std::nullopt;
  }
  std::fflush(stdout);
  std::u32string_view text(code_points(line), static_cast<size_t>(n));
  if (text.ends_with(U'\n')) text.remove_suffix(1);
  return encode(text);
}

void LineEditor::remember(const std::string& message) {
  if (message.empty()) return;
  HistEventW event;
  history_w(impl_->history, &event, H_ENTER, wide(message).c_str());
  if (!impl_->history_path.empty()) append_history(impl_->history_path, message);
}

}  // namespace anabranch::terminal
