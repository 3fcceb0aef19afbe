// Blocks by size and by lifetime: how many, and how many bytes they asked for.

class Histogram {
  constructor(id, show) {
    this.sheet = new Sheet(id, { ...MARGIN, right: 62 });
    this.show = show;
    this.sheet.element.addEventListener("pointermove", (event) => this.hover(event));
    this.sheet.element.addEventListener("pointerleave", () => tip.hide());
  }

  set(bins, what) {
    this.bins = bins;
    const blocks = bins.reduce((sum, bin) => sum + bin.blocks, 0);
    const most = bins.reduce((best, bin) => (bin.blocks > best.blocks ? bin : best), { blocks: 0, from: 0 });
    const label = blocks ? `${what} of ${showCount(blocks)} blocks, most often from ${this.show(most.from)} on.` : `${what}: no block.`;
    this.sheet.element.setAttribute("aria-label", label);
  }

  draw() {
    const { sheet, bins } = this;
    if (!sheet.clear() || !bins.length) return;
    const most = Math.max(...bins.map((bin) => bin.blocks)) * 1.05;
    const mostBytes = Math.max(1, ...bins.map((bin) => bin.bytes)) * 1.05;
    sheet.levels(stepped(most, Math.ceil(niceStep(most / 4))), most, showCount);
    sheet.levelsRight(byteLevels(mostBytes), mostBytes, showLevel);
    const { left, top, width, height } = sheet.box;
    const wide = width / bins.length;
    const every = Math.ceil(64 / wide);
    bins.forEach((bin, index) => {
      const x = left + index * wide;
      const bar = (share, colour, from, to) => {
        const tall = share ? Math.max(1, share * height) : 0;
        sheet.brush.fillStyle = colours.of(colour);
        sheet.brush.fillRect(x + wide * from, top + height - tall, wide * (to - from), tall);
      };
      bar(bin.blocks / most, "live", 0.1, 0.52);
      bar(bin.bytes / mostBytes, "idle", 0.52, 0.9);
      if (index % every === 0) {
        sheet.brush.fillStyle = colours.of("soft");
        sheet.brush.textAlign = "left";
        sheet.brush.textBaseline = "top";
        sheet.brush.fillText(this.show(bin.from), x, top + height + 6);
      }
    });
  }

  hover(event) {
    const { left, width } = this.sheet.box;
    const x = event.clientX - this.sheet.element.getBoundingClientRect().left - left;
    const bin = this.bins[Math.floor((x / width) * this.bins.length)];
    if (!bin) return tip.hide();
    const to = bin.from ? bin.from * 2 : 1;
    tip.show(event, `${this.show(bin.from)} to ${this.show(to)}`, [["blocks", showCount(bin.blocks)], ["asked for", showBytes(bin.bytes)]]);
  }
}
