import DOMPurify from 'dompurify';
import { Marked } from 'marked';

/*
 * A model's output is untrusted. Raw HTML is shown as text, pictures are not fetched (their address could carry the
 * conversation away), links open outside and only to the web or mail, and what is left passes a list of allowed tags.
 */
const TAGS =
  'p br hr em strong del code pre blockquote ul ol li h3 h4 h5 h6 a table thead tbody tr th td'.split(' ');

/** @param {string} text */
function escape(text) {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ raw }) => escape(raw),
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 2);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
  },
});

/**
 * @param {string} text  markdown from a model
 * @returns {DocumentFragment} safe to append
 */
export function renderMarkdown(text) {
  const html = /** @type {string} */ (marked.parse(text, { async: false }));
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'align', 'start'],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const link of fragment.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  for (const wide of fragment.querySelectorAll('pre')) wide.tabIndex = 0;
  return fragment;
}
