// A canvas that is as sharp as the screen, its colours, its axes, and the note beside the pointer.

/** Colours by their name in the style. */
const colours = {
  read() {
    const style = getComputedStyle(document.documentElement);
    this.known = new Map();
    this.of = (name) => {
      if (!this.known.has(name)) this.known.set(name, style.getPropertyValue(`--${name}`).trim());
      return this.known.get(name);
    };
  },
  /** Red, green and blue of a colour. */
  parts(name) {
    const hex = this.of(name).slice(1);
    return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  },
};

const MARGIN = { left: 62, right: 12, top: 8, bottom: 22 };

/** A canvas element and how large it is drawn. */
class Sheet {
  constructor(id, margin = MARGIN) {
    this.element = byId(id);
    this.margin = margin;
    this.brush = this.element.getContext("2d");
  }

  /** Clears it, in CSS pixels; false where nobody sees it. */
  clear() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const scale = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.element.width !== wide || this.element.height !== high) {
      this.element.width = wide;
      this.element.height = high;
    }
    this.width = width;
    this.height = height;
    this.brush.setTransform(scale, 0, 0, scale, 0, 0);
    this.brush.clearRect(0, 0, width, height);
    this.brush.font = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";
    return width > 0 && height > 0;
  }

  /** Where the figure is, inside its margins. */
  get box() {
    const { left, right, top, bottom } = this.margin;
    return { left, top, width: Math.max(1, this.width - left - right), height: Math.max(1, this.height - top - bottom) };
  }

  /** Lines across with their names at the left; `values` run from 0 to `most`. */
  levels(values, most, show) {
    const { left, top, width, height } = this.box;
    this.brush.textAlign = "right";
    this.brush.textBaseline = "middle";
    for (const value of values) {
      const y = Math.round(top + height - (value / most) * height) + 0.5;
      this.brush.fillStyle = colours.of("rule");
      this.brush.fillRect(left, y - 0.5, width, 1);
      this.brush.fillStyle = colours.of("soft");
      this.brush.fillText(show(value), left - 8, y);
    }
  }

  /** Names of levels at the right, where a second figure has a scale of its own. */
  levelsRight(values, most, show) {
    const { left, top, width, height } = this.box;
    this.brush.textAlign = "left";
    this.brush.textBaseline = "middle";
    this.brush.fillStyle = colours.of("soft");
    for (const value of values) {
      this.brush.fillText(show(value), left + width + 8, Math.round(top + height - (value / most) * height) + 0.5);
    }
  }

  /** Names of moments below the figure. */
  moments(clock) {
    const { left, top, width, height } = this.box;
    const step = niceStep((clock.end - clock.start) / Math.max(2, Math.floor(width / 110)));
    this.brush.fillStyle = colours.of("soft");
    this.brush.textBaseline = "top";
    for (let at = Math.ceil(clock.start / step) * step; at <= clock.end; at += step) {
      const x = left + clock.share(at) * width;
      const text = showMoment(at, step);
      const half = this.brush.measureText(text).width / 2;
      if (x + half > this.width) continue;
      this.brush.textAlign = "center";
      this.brush.fillText(text, x, top + height + 6);
    }
  }

  /** The mark of the moment that the maps show. */
  mark(clock) {
    const { left, top, width, height } = this.box;
    const share = clock.share(clock.moment);
    if (share < 0 || share > 1) return;
    this.brush.fillStyle = colours.of("ink");
    this.brush.globalAlpha = 0.75;
    this.brush.fillRect(Math.round(left + share * width), top, 1, height);
    this.brush.globalAlpha = 1;
  }
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= least) || 10;
  return Math.max(1, factor * power);
}

/** Levels from 0 to `most` at steps of a power of two. */
function byteLevels(most) {
  let step = 1;
  while (most / step > 6) step *= 2;
  return stepped(most, step);
}

function stepped(most, step) {
  const values = [];
  for (let value = 0; value <= most; value += step) values.push(value);
  return values;
}

/** The note beside the pointer. */
const tip = {
  /** Shows a title and pairs of a name and a value. */
  show(event, title, pairs) {
    const note = byId("tip");
    const lines = pairs.map(([name, value]) => element("span", {}, element("em", {}, name), value));
    note.replaceChildren(element("b", {}, title), ...lines);
    note.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = note;
    const x = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
    const y = event.clientY + 16 + height > innerHeight ? event.clientY - 12 - height : event.clientY + 16;
    note.style.left = `${Math.max(4, x)}px`;
    note.style.top = `${Math.max(4, y)}px`;
  },
  hide() {
    byId("tip").hidden = true;
  },
};

/** Fills a legend with `[colour, name, value, is a line]`. */
function fillLegend(id, entries) {
  byId(id).replaceChildren(
    ...entries.map(([colour, name, value, isLine]) => {
      const swatch = element("i", isLine ? { class: "line" } : {});
      swatch.style.setProperty("--swatch", `var(--${colour})`);
      return element("li", {}, swatch, name, ...(value ? [element("b", {}, value)] : []));
    }),
  );
}
