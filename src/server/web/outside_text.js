// Text from outside (models, tools, their servers) as a person must be able to judge it: nothing in it is hidden, reordered or
// rewritten.

// Control characters except line ends and tabs, marks of direction, characters without width or form, tags, separators of lines,
// halves of surrogate pairs. Emoji keep what joins them.
const HIDDEN = new RegExp([
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\r(?!\n)/,
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f]/,
  /[\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Cs}/u,
  /(?<!\p{Extended_Pictographic})[\ufe0e\ufe0f]|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d/u,
].map((part) => part.source).join("|"), "gu");

// Hidden characters as JSON writes them ("\u202e"), so that they show where they stand.
export const visible = (text) => String(text).replace(HIDDEN, (sign) =>
  [...Array(sign.length).keys()].map((at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+|"/gs;

// JSON with line breaks and indentation. The tokens stay as they are: JSON.parse would round numbers and drop repeated names,
// and what is shown would not be what runs. Text that is not JSON is left alone.
export function indented(json) {
  try {
    JSON.parse(json);
  } catch {
    return json || "";
  }
  let out = "", depth = 0, before = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of json.matchAll(TOKEN)) {
    const closing = token === "}" || token === "]";
    if (closing) depth--;
    const opened = before === "{" || before === "[";
    if (closing ? !opened : opened || before === ",") out += line();
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth++;
    before = token;
  }
  return out;
}
