const KEY = 'headlight.theme';
const NEXT = { system: 'light', light: 'dark', dark: 'system' };

/** @typedef {'system' | 'light' | 'dark'} Theme */

/** @returns {Theme} what was chosen on an earlier visit */
export function savedTheme() {
  const saved = read(KEY);
  return saved === 'light' || saved === 'dark' ? saved : 'system';
}

/**
 * @param {Theme} theme
 * @returns {Theme} the one that the switch gives next
 */
export function nextTheme(theme) {
  return /** @type {Theme} */ (NEXT[theme]);
}

/** @param {Theme} theme */
export function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  write(KEY, theme);
}

/**
 * @param {Theme} theme
 * @returns {'light' | 'dark'} what is seen
 */
export function seenTheme(theme) {
  if (theme !== 'system') return theme;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/**
 * @param {string} key
 * @returns {string | null} null also where the browser keeps nothing
 */
export function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
export function write(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Private windows may refuse; the page works without.
  }
}
