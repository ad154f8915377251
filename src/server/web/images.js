// Images that go with a message: distinguished from other files, and made as small as models need them.

import * as format from "./format.js";

export const MAX_IMAGES = 8;            // of a message
const MAX_FILE = 64 * 1024 * 1024;      // bytes
const MAX_PIXELS = 2 * 1024 * 1024;     // larger ones are scaled down: models look at no more
const MAX_KEPT = 1024 * 1024;           // bytes of a file that is sent as it is
const KEPT = ["image/png", "image/jpeg", "image/webp"];

// SVG is text, and goes as such.
export const isImage = (file) => file.type.startsWith("image/") && file.type !== "image/svg+xml";

// The addresses of images that may be shown and sent: none but the images themselves.
export const pictures = (urls) => (urls || []).filter((url) => typeof url === "string" && /^data:image\/[^,]*;base64,/.test(url));

function asUrl(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

function scaled(bitmap) {
  const scale = Math.min(1, Math.sqrt(MAX_PIXELS / (bitmap.width * bitmap.height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white";  // JPEG knows no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9);
}

// {name, url}; throws an Error that says why the file is not taken.
export async function readImage(file) {
  if (file.size > MAX_FILE)
    throw new Error(`${file.name} is too large: ${format.bytes(file.size)}, and at most ${format.bytes(MAX_FILE)} are taken.`);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is no image that the browser can read.`);
  }
  const small = bitmap.width * bitmap.height <= MAX_PIXELS && file.size <= MAX_KEPT && KEPT.includes(file.type);
  const url = small ? await asUrl(file) : scaled(bitmap);
  bitmap.close();
  return {name: file.name, url};
}
