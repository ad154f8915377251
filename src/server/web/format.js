// Numbers and times as people read them.

export function bytes(count) {
  if (!(count >= 0)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return `${count >= 100 || unit === 0 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

export function seconds(time) {
  if (!(time >= 0)) return "–";
  if (time < 10) return `${time.toFixed(1)} s`;
  if (time < 100) return `${Math.round(time)} s`;
  if (time < 5400) return `${Math.round(time / 60)} min`;
  if (time < 172800) return `${Math.round(time / 3600)} h`;
  return `${Math.round(time / 86400)} d`;
}

export const count = (number) => number.toLocaleString("en");
export const percent = (share) => `${Math.round(100 * share)} %`;
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

// The day of a moment in Unix seconds, as a heading of the list.
export function dayName(unix) {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  const age = midnight / 1000 - unix;
  if (age <= 0) return "Today";
  if (age <= 86400) return "Yesterday";
  if (age <= 6 * 86400) return "This week";
  return new Date(unix * 1000).toLocaleDateString("en", {year: "numeric", month: "long"});
}
