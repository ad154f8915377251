#include "terminal/table.h"

#include <algorithm>

#include "base/white_space.h"
#include "terminal/characters.h"
#include "terminal/inline_markdown.h"

namespace anabranch::terminal {
namespace {

using Row = std::vector<std::string>;

constexpr size_t kMostColumns = 64;
constexpr size_t kLeastWidth = 6;  // of a column that was made narrower

Row split(std::string_view line) {
  std::string inner(trimmed(line));
  if (inner.starts_with('|')) inner.erase(0, 1);
  Row cells{""};
  bool code = false;
  for (size_t i = 0; i < inner.size(); i++) {
    const bool escaped = inner[i] == '\\' && i + 1 < inner.size() && inner[i + 1] == '|';
    if (inner[i] == '`') code = !code;
    if (escaped) {
      cells.back() += inner[++i];
    } else if (inner[i] == '|' && !code && cells.size() < kMostColumns) {
      cells.emplace_back();
    } else {
      cells.back() += inner[i];
    }
  }
  if (cells.size() > 1 && trimmed(cells.back()).empty()) cells.pop_back();
  for (std::string& cell : cells) cell = std::string(trimmed(cell));
  return cells;
}

bool is_rule(const Row& row) {
  return std::ranges::all_of(row, [](const std::string& cell) {
    return cell.find('-') != cell.npos && cell.find_first_not_of(":-") == cell.npos;
  });
}

size_t shown_cells(const std::string& cell) {
  size_t n = 0;
  for (const StyledText& span : read_inline(cell, kPlain).spans) n += cells(span.text);
  return n;
}

// Narrows the widest columns until all fit.
void fit(std::vector<size_t>& widths, size_t width) {
  const auto total = [&] {
    size_t sum = 3 * (widths.size() - 1);
    for (const size_t one : widths) sum += one;
    return sum;
  };
  while (total() > width) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest <= kLeastWidth) return;
    --*widest;
  }
}

// A cell's lines, each padded with spaces.
std::vector<std::string> cell_lines(const std::string& cell, size_t width, uint8_t style) {
  Wrapper lines([width] { return width; }, true);
  for (const StyledText& span : read_inline(cell, style).spans) lines.put(span.text, span.style);
  lines.flush();
  std::vector<std::string> out{""};
  for (const char c : lines.take())
    if (c == '\n')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

// The number of cells of a line with escape sequences.
size_t visible_cells(const std::string& line) {
  std::string text;
  for (size_t i = 0; i < line.size(); i++)
    if (line[i] == '\033')
      i = std::min(line.find('m', i), line.size() - 1);
    else
      text += line[i];
  return cells(text);
}

void show_row(const Row& row, const std::vector<size_t>& widths, uint8_t style, Wrapper& out) {
  std::vector<std::vector<std::string>> columns;
  size_t height = 1;
  for (size_t c = 0; c < widths.size(); c++) {
    columns.push_back(cell_lines(c < row.size() ? row[c] : "", widths[c], style));
    height = std::max(height, columns.back().size());
  }
  for (size_t y = 0; y < height; y++) {
    for (size_t c = 0; c < widths.size(); c++) {
      const std::string line = y < columns[c].size() ? columns[c][y] : "";
      const size_t taken = visible_cells(line);
      out.put_whole(line);
      if (c + 1 < widths.size()) {
        out.put_whole(std::string(widths[c] > taken ? widths[c] - taken : 0, ' '));
        out.put_whole(" │ ", kDim);
      }
    }
    out.end_line();
  }
}

}  // namespace

void format_table(const std::vector<std::string>& lines, Wrapper& out) {
  std::vector<Row> rows;
  for (const std::string& line : lines) rows.push_back(split(line));
  if (rows.size() < 2 || !is_rule(rows[1])) {
    for (const std::string& line : lines) {
      for (const StyledText& span : read_inline(line, kPlain).spans) out.put(span.text, span.style);
      out.end_line();
    }
    return;
  }
  size_t columns = 1;
  for (const Row& row : rows) columns = std::max(columns, row.size());
  std::vector<size_t> widths(columns, 1);
  for (size_t r = 0; r < rows.size(); r++)
    for (size_t c = 0; r != 1 && c < std::min(widths.size(), rows[r].size()); c++)
      widths[c] = std::max(widths[c], shown_cells(rows[r][c]));
  if (out.width() > 0) fit(widths, out.width());
  show_row(rows[0], widths, kBold, out);
  std::string rule;
  for (size_t c = 0; c < widths.size(); c++) {
    if (c > 0) rule += "─┼─";
    for (size_t i = 0; i < widths[c]; i++) rule += "─";
  }
  out.put_whole(rule, kDim);
  out.end_line();
  for (size_t r = 2; r < rows.size(); r++) show_row(rows[r], widths, kPlain, out);
}

}  // namespace anabranch::terminal
