// Prompts of a wanted length, as text and as ids that mean the same.

const prose =
  `The lamp at the bow throws its light ahead of the boat, and what it shows is a path of water that nobody has
seen before. Behind it the helmsman counts the strokes of the engine and writes them down every quarter of an hour, as his
father did on the same river. He knows the bends by the sound that the banks give back: a low wall of clay answers early, a
field of reeds hardly at all. Twice in a night the river divides, and both times the wider arm is the wrong one. A stranger
would follow it for an hour, find the bottom rising, and have to turn in a channel that is narrower than his boat is long. The
second danger is the ferry at the old mill, which crosses without a light because its rope cannot be seen by day either. The
third is sleep. Against it he has a can of coffee, a window that does not close, and a boy of twelve years who asks about
everything. Why does the water carry the light so far? Who measured the depths on the chart, and how did they know where they
were while they measured? What happens to the letters in the hold when the address has been washed away? He answers as well as
he can, and where he cannot he says that the boy should look for himself, which is the answer that has kept more people awake
than coffee. `.replace(/\s+/g, ' ');

/**
 * @typedef {object} Prompt
 * @property {string} text
 * @property {number[]} ids
 *
 * The longest prompt of whole words that has at most n tokens.
 * @param {(text: string) => Promise<number[]>} tokenize
 * @param {number} n
 * @returns {Promise<Prompt>}
 */
export async function makePrompt(tokenize, n) {
  const words = prose.trim().split(' ');
  const textOf = (/** @type {number} */ count) =>
    Array.from({ length: count }, (_, i) => words[i % words.length]).join(' ');
  let [fits, tooLong] = [1, n + 1];
  while (tooLong - fits > 1) {
    const count = (fits + tooLong) >> 1;
    if ((await tokenize(textOf(count))).length <= n) fits = count;
    else tooLong = count;
  }
  const text = textOf(fits);
  return { text, ids: [...(await tokenize(text))] };
}
