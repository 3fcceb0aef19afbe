// Reads the lists of numbers that the page carries in base64.

function unpackBytes(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

/** A list of numbers of a type; they are stored lowest byte first, as all machines with browsers keep them. */
function unpack(Type, text) {
  return new Type(unpackBytes(text).buffer);
}

/** A figure over time: its lowest and highest value in each bin, in bytes. */
class Series {
  constructor(packed) {
    this.unit = packed.unit_bytes;
    this.low = unpack(Uint32Array, packed.low);
    this.high = unpack(Uint32Array, packed.high);
    this.bins = this.low.length;
    this.peak = this.high.reduce((most, value) => Math.max(most, value), 0) * this.unit;
  }

  /** Lowest and highest from one bin to another, both included. */
  between(from, to) {
    const last = Math.min(to, this.bins - 1);
    let low = Infinity;
    let high = 0;
    for (let bin = Math.max(0, from); bin <= last; bin += 1) {
      if (this.low[bin] < low) low = this.low[bin];
      if (this.high[bin] > high) high = this.high[bin];
    }
    return low === Infinity ? [0, 0] : [low * this.unit, high * this.unit];
  }
}

/** The curves of a device, or of all. */
function unpackCurves(packed) {
  const read = (series) => (series ? new Series(series) : null);
  return { live: read(packed.live), physical: read(packed.physical), reserved: read(packed.reserved) };
}
