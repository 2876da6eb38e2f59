/** Finds stop strings in streamed text. Text is held back only while it may still become a stop string. */
export class StopFilter {
  /** @param {readonly string[]} stops empty strings are ignored */
  constructor(stops) {
    this.stops = stops.filter((s) => s !== '');
    this.longest = this.stops.reduce((n, s) => Math.max(n, s.length), 0);
    this.held = '';
    /** The stop string that was found, or undefined. @type {string | undefined} */
    this.found = undefined;
  }

  /**
   * @param {string} piece
   * @returns {string} text that is certain now; after a stop string was found, nothing more
   */
  push(piece) {
    if (this.found !== undefined) return '';
    const text = this.held + piece;
    let at = -1;
    for (const stop of this.stops) {
      const i = text.indexOf(stop);
      if (i >= 0 && (at < 0 || i < at)) {
        at = i;
        this.found = stop;
      }
    }
    if (at >= 0) {
      this.held = '';
      return text.slice(0, at);
    }
    const keep = this.#undecided(text);
    this.held = text.slice(text.length - keep);
    return text.slice(0, text.length - keep);
  }

  /** @returns {string} what was held back: no more text will come, so it is no stop string */
  flush() {
    const text = this.held;
    this.held = '';
    return text;
  }

  /**
   * Length of the longest end of text that begins some stop string.
   * @param {string} text
   */
  #undecided(text) {
    for (let n = Math.min(text.length, this.longest - 1); n > 0; n--) {
      const end = text.slice(text.length - n);
      if (this.stops.some((s) => s.length > n && s.startsWith(end))) return n;
    }
    return 0;
  }
}
