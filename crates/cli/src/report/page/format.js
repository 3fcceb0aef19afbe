// Figures as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes as a number and its unit. */
function splitBytes(bytes, places = 2) {
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const sign = bytes < 0 ? "−" : "";
  return [sign + value.toFixed(unit === 0 ? 0 : places), UNITS[unit]];
}

function showBytes(bytes, places = 2) {
  return splitBytes(bytes, places).join(" ");
}

/** Bytes at a level of an axis: no more digits than it has. */
function showLevel(bytes) {
  const [value, unit] = splitBytes(bytes);
  return bytes ? `${trimmed(Number(value), 2)} ${unit}` : "0";
}

/** A length of time given in microseconds. */
function showTime(us) {
  if (us < 1000) return `${trimmed(us, 1)} µs`;
  if (us < 1e6) return `${trimmed(us / 1e3, us < 1e4 ? 2 : 1)} ms`;
  if (us < 6e7) return `${trimmed(us / 1e6, 2)} s`;
  const minutes = Math.floor(us / 6e7);
  return `${minutes} min ${trimmed((us - minutes * 6e7) / 1e6, 0)} s`;
}

/** A moment given in microseconds, as fine as the step between two of them asks for. */
function showMoment(us, stepUs) {
  const places = Math.min(6, Math.max(0, Math.ceil(-Math.log10(stepUs / 1e6))));
  return `${(us / 1e6).toFixed(places)} s`;
}

function showCount(count) {
  return Math.round(count).toLocaleString("en-US");
}

function showShare(share, places = 1) {
  return `${(share * 100).toFixed(places)} %`;
}

/** A number without noughts at its end. */
function trimmed(value, places) {
  return value.toFixed(places).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** An element with text or further elements in it. Text is never read as markup. */
function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}
