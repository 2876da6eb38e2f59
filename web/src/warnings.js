/** What is done as it was asked, and that a person should know of. */

/**
 * @param {number} context positions
 * @param {number} trained positions that the model was made for; 0 where its file does not say
 * @returns {string[]} at most one
 */
export function contextWarnings(context, trained) {
  if (trained === 0 || context <= trained) return [];
  return [
    `The context of ${context} positions is larger than the ${trained} that the model was trained for: ` +
      'what it says behind those is often poor. Ask for fewer if it is.',
  ];
}
