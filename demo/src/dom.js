const SVG = 'http://www.w3.org/2000/svg';

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Props
 * @typedef {Node | string | null | undefined} Child
 */

/**
 * @param {Element} element
 * @param {Props} props  `onclick` and the like are listeners; `text` is the text; the rest are attributes
 */
export function assign(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (name === 'text') element.textContent = String(value);
    else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
}

/**
 * Makes an HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  assign(element, props);
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/**
 * Makes an SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, props = {}, ...children) {
  const element = /** @type {SVGElementTagNameMap[K]} */ (document.createElementNS(SVG, tag));
  assign(element, props);
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/**
 * Sets the text only when it differs, so that screen readers and selections are left alone.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * The parts of a view, made once for each element it is drawn into.
 * @template T
 * @param {(element: HTMLElement) => T} make
 * @returns {(element: HTMLElement) => T}
 */
export function skeleton(make) {
  /** @type {WeakMap<HTMLElement, T>} */
  const made = new WeakMap();
  return (element) => {
    let parts = made.get(element);
    if (!parts) {
      parts = make(element);
      made.set(element, parts);
    }
    return parts;
  };
}

/**
 * A group of buttons of which one is pressed, moved through with the arrow keys.
 * @param {string} label
 * @param {[string, string][]} options  value and text
 * @param {(value: string) => void} choose
 * @param {string} testid  prefix of the buttons' data-testid
 * @returns {{ element: HTMLElement, set: (value: string) => void }}
 */
export function segmented(label, options, choose, testid) {
  const buttons = options.map(([value, text]) =>
    h('button', {
      type: 'button',
      role: 'radio',
      'data-value': value,
      'data-testid': `${testid}-${value}`,
      text,
      onclick: () => choose(value),
    }),
  );
  const element = h('div', { class: 'segmented', role: 'radiogroup', 'aria-label': label }, ...buttons);
  element.addEventListener('keydown', (event) => {
    const step = arrowStep(event.key);
    if (!step) return;
    event.preventDefault();
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    const next = buttons[(at + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
  });
  return {
    element,
    set(value) {
      for (const button of buttons) setChosen(button, button.dataset.value === value);
    },
  };
}

/**
 * @param {HTMLElement} radio
 * @param {boolean} chosen
 */
export function setChosen(radio, chosen) {
  radio.setAttribute('aria-checked', String(chosen));
  radio.tabIndex = chosen ? 0 : -1;
}

/**
 * @param {string} key
 * @returns {number} 1 or -1 for an arrow key, else 0
 */
export function arrowStep(key) {
  if (key === 'ArrowRight' || key === 'ArrowDown') return 1;
  if (key === 'ArrowLeft' || key === 'ArrowUp') return -1;
  return 0;
}
