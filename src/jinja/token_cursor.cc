#include "jinja/token_cursor.h"

namespace anabranch::jinja {

bool TokenCursor::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}

bool TokenCursor::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void TokenCursor::expect_op(std::string_view op) {
  if (!skip_op(op))
    fail_here("expected '{}'{}", op, current().text.empty() ? "" : ", got '" + current().text + "'");
}

void TokenCursor::expect(TokenKind kind, std::string_view what) {
  if (!is(kind))
    fail_here("expected '{}'{}", what, current().text.empty() ? "" : ", got '" + current().text + "'");
  take();
}

}  // namespace anabranch::jinja
