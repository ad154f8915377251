// Requests to the server that the page came from: the key, errors with a meaning, and streams of events.

const BASE = new URL("../", import.meta.url);
const KEY = "anabranch.key";

// Failures that a later attempt would only repeat, until somebody changes something.
const LASTING = [401, 403, 404], LASTING_CODES = ["model_not_loaded", "device_lost"];

// kind: "offline" (no answer), "cut" (the answer broke off), "failed" (an event of it says so), "key" (401 and no key was
// given), "stopped" (by the user), "http" (everything else that the server says).
export class ApiError extends Error {
  constructor(kind, message, {status = 0, code = "", retryAfter = 0} = {}) {
    super(message);
    Object.assign(this, {kind, status, code, retryAfter});
  }

  get lasting() {
    return LASTING.includes(this.status) || LASTING_CODES.includes(this.code);
  }
}

function stored(storage) {
  try {
    return storage.getItem(KEY);
  } catch {
    return null;
  }
}

let key = stored(sessionStorage) || stored(localStorage) || "";
let askForKey = async () => null;
let asking = null;
let declined = false;  // the user gave no key when asked: only what the user starts asks again

// ask(wasWrong): resolves with {key, remember}, or null if the user gives none.
export function onKeyNeeded(ask) {
  askForKey = ask;
}

function keepKey(given) {
  key = given.key;
  try {
    sessionStorage.setItem(KEY, key);
    if (given.remember) localStorage.setItem(KEY, key);
    else localStorage.removeItem(KEY);
  } catch {
    // The key then lives as long as the page.
  }
}

export function forgetKey() {
  key = "";
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}
export const hasKey = () => key !== "";

async function errorOf(response) {
  let error = {};
  try {
    const body = await response.json();
    error = (body && body.error) || {};
  } catch {
    // Proxies answer with pages of their own.
  }
  const wait = Number(response.headers.get("Retry-After"));
  return new ApiError("http", error.message || `The server answered with status ${response.status}.`, {
    status: response.status, code: error.code || "", retryAfter: wait > 0 ? wait : 0,
  });
}

// body: an object; text: the same as JSON already.
async function send(path, {method = "GET", body, text, signal} = {}) {
  const headers = {};
  const sent = body === undefined ? text : JSON.stringify(body);
  if (sent !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(new URL(path.replace(/^\//, ""), BASE), {
      method, headers, signal, body: sent, cache: "no-store",
      credentials: "omit", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw new ApiError("stopped", "Stopped.");
    throw new ApiError("offline", "The server does not answer. It may have stopped, or the network is down.");
  }
}

// Any answer but one that asks for a key. quiet: a missing key is an error and the user is not asked; insist: the user is asked
// although they declined before.
export async function answered(path, options = {}) {
  for (;;) {
    const used = key;
    const response = await send(path, options);
    if (response.status !== 401) return response;
    if (key !== used) continue;  // another request brought a key meanwhile
    if (options.quiet || (declined && !options.insist)) throw new ApiError("key", "This server asks for an API key.", {status: 401});
    asking ??= askForKey(used !== "").finally(() => { asking = null; });
    const given = await asking;
    declined = !given;
    if (!given) throw new ApiError("key", "This server asks for an API key, and none was given.", {status: 401});
    keepKey(given);
  }
}

// A successful answer; everything else is thrown. options: see answered().
export async function request(path, options = {}) {
  const response = await answered(path, options);
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function json(path, options = {}) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch {
    throw new ApiError("cut", "The server's answer could not be read.");
  }
}

export const post = (path, body, options = {}) => json(path, {method: "POST", body, ...options});

// The data of each server-sent event of a POST. Throws "cut" if the connection breaks.
export async function* events(path, body, signal) {
  const response = await request(path, {method: "POST", body, signal, insist: true});
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
      const lines = rest.split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data && data !== "[DONE]") yield JSON.parse(data);
      }
      if (done) return;
    }
  } catch (error) {
    if (error.name === "AbortError" || signal?.aborted) throw new ApiError("stopped", "Stopped.");
    throw new ApiError("cut", "The connection broke off in the middle of the answer.");
  } finally {
    reader.cancel().catch(() => {});
  }
}
