// Draws bar charts as SVG, for light and dark pages.

/**
 * @param {string} title
 * @param {readonly { label: string, value: number, emphasis: boolean, faint: boolean }[]} bars
 * @returns {string}
 */
export function barChart(title, bars) {
  const rowHeight = 26;
  // Fonts differ, so this leaves some room: per character, in bold and otherwise.
  const left = 20 + Math.max(...bars.map(({ label, emphasis }) => label.length * (emphasis ? 7 : 6.4)));
  const width = 400;
  const top = 40;
  const most = Math.max(...bars.map(({ value }) => value));
  const height = top + bars.length * rowHeight + 8;
  const rows = bars.map(({ label, value, emphasis, faint }, i) => {
    const y = top + i * rowHeight;
    const length = Math.max(1, (width * value) / most);
    const figure = Number(value.toPrecision(3)).toLocaleString('en');
    const weight = emphasis ? ' font-weight="bold"' : '';
    const kind = emphasis ? 'ours' : faint ? 'floor' : 'peer';
    return [
      `<text x="${(left - 10).toFixed(1)}" y="${y + 14}" text-anchor="end"${weight}>${escape(label)}</text>`,
      `<rect class="${kind}" x="${left.toFixed(1)}" y="${y + 2}" width="${length.toFixed(1)}" height="16" rx="2"/>`,
      `<text x="${(left + length + 6).toFixed(1)}" y="${y + 14}">${figure}</text>`,
    ].join('');
  });
  const size = `viewBox="0 0 ${Math.ceil(left + width + 80)} ${height}"`;
  const font = 'font-family="system-ui, sans-serif" font-size="12"';
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font} role="img" aria-label="${escape(title)}">
<style>
text { fill: #24292f } .ours { fill: #2da44e } .peer { fill: #6e7781 } .floor { fill: #d0d7de }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .peer { fill: #8b949e } .floor { fill: #484f58 } }
</style>
<text x="10" y="22" font-size="14" font-weight="bold">${escape(title)}</text>
${rows.join('\n')}
</svg>
`;
}

/** @param {string} text */
function escape(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
