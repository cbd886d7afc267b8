'use strict';
// What every page is made of: text, facts, tables, charts. Names in answers are data: they become
// text nodes, never markup.

const answer = JSON.parse(document.getElementById('answer').textContent);
const page = document.getElementById('page');
const charts = [];  // drawn on this page
const answers = {};  // by command: draws the page of an answer

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const palette = (i) => colour(`--c${i % 8}`);
// Work, transfers, waiting and idleness have the same colour on every page.
const MEANINGS = [[/^(computation|computing|compute|weights)$/, 0], [/transfer$|^communication$|^network$/, 1],
  [/^waiting|collective arrival|arrival of the last/, 3], [/^cpu$/, 4], [/^memory$/, 2], [/^(nothing|no work|idle|start skew)/, 7]];
const meaningOf = (label) => (MEANINGS.find(([name]) => name.test(label)) ?? [null, null])[1];
// A colour each: what has a meaning its own, the others those that are left.
function coloursOf(labels) {
  const taken = new Set(labels.map(meaningOf));
  const left = [0, 1, 2, 3, 4, 5, 6, 7].filter((c) => !taken.has(c));
  let next = 0;
  return labels.map((label) => (label === 'free' ? colour('--line')
    : palette(meaningOf(label) ?? (left.length > 0 ? left[next++ % left.length] : next++))));
}
const words = (key) => key.replaceAll('_', ' ').replaceAll('.', ' ');
const isNumber = (text) => text.trim() !== '' && Number.isFinite(Number(text));
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

// 12345.6 us as "12.35 ms", a key's ending being its unit.
function scaled(value, steps) {
  let [factor, unit] = steps[0];
  for (const step of steps) if (Math.abs(value) >= 0.99995 * step[0]) [factor, unit] = step;  // 999.96 us are 1.000 ms
  return `${unit === 'B' && Number.isInteger(value) ? value : (value / factor).toPrecision(4)} ${unit}`;
}
const TIME = [[1e-3, 'ns'], [1, 'us'], [1e3, 'ms'], [1e6, 's']];
const SIZE = [[1, 'B'], [1e3, 'kB'], [1e6, 'MB'], [1e9, 'GB'], [1e12, 'TB']];
// Of "ttft_s.mean" and the like the part that names the unit.
const unitOf = (key) => key.split('.').reverse().find((part) => /(^|_)(us|ns|s|bytes|share|percent|utilisation)$|^(sources|source_shares|mfu)$/.test(part)) ?? key;
function shown(value, path = '') {
  const key = unitOf(path);
  if (/(^|[._])per_us$/.test(path)) return String(Number(value.toPrecision(4)));
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'number') return String(value);
  if (/(^|_)us$/.test(key)) return value === 0 ? '0' : scaled(value, TIME);
  if (/(^|_)ns$/.test(key)) return value === 0 ? '0' : scaled(value / 1000, TIME);
  if (/_s$/.test(key) && !/per_s$/.test(key)) return value === 0 ? '0' : scaled(value * 1e6, TIME);
  if (/bytes/.test(key)) return value === 0 ? '0' : scaled(value, SIZE);
  if (/share$|utilisation$|^(sources|source_shares|mfu)$/.test(key)) return `${(100 * value).toFixed(1)} %`;
  if (/percent$/.test(key)) return `${value.toFixed(2)} %`;
  if (Math.abs(value) >= 1e15) return value.toExponential(3);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
}

// A key without the unit that its values are shown with.
const heading = (key) => words(key.split('.').map((part) => part.replace(/^(us|ns|s)$/, 'time')
  .replace(/(?<!per)_(us|ns|s|bytes|share|percent)$/, '').replace(/_bytes_/, '_')).join('.'))
  .replace(/ ?gbps\b/i, ' GB/s').replace(/ ?(g|t)flops\b/i, (_, scale) => ` ${scale.toUpperCase()}FLOP/s`)
  .replace(/ per s$/, '/s').replace(/ per s per /, '/s per ').trim();

function section(title) {
  const id = title.toLowerCase().replaceAll(/[^a-z]+/g, '-');
  const node = el('section', { id }, el('h2', {}, title));
  page.append(node);
  return node;
}

function facts(where, object, within = '') {
  const entries = Object.entries(object).filter(([, v]) => v !== null && v !== '' && typeof v !== 'object');
  if (entries.length === 0) return;
  where.append(el('dl', {}, ...entries.map(([key, value]) => el('div', {},
    el('dt', {}, heading(key)),
    el('dd', {}, short(shown(value, within + key)))))));
}

const MOST_IN_CELL = 12;  // numbers; longer lists are series, which are drawn

// Objects within a row become columns "outer.inner"; lists of plain values are joined.
function flat(row, prefix = '', out = {}) {
  for (const [key, value] of Object.entries(row)) {
    const name = prefix + key;
    if (isObject(value)) flat(value, `${name}.`, out);
    else if (!Array.isArray(value)) out[name] = value;
    else if (value.length > MOST_IN_CELL && value.every((v) => typeof v === 'number')) out[name] = `${value.length} values`;
    else if (!value.some((v) => v !== null && typeof v === 'object')) out[name] = value.join(', ');
  }
  return out;
}

const csvField = (value) => {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// Whether it was copied.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // no permission: the older way
    const area = el('textarea', {}), focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    focused?.focus();
    return copied;
  }
}

const FIRST_ROWS = 100, MOST_PRINTED = 2000;
const tableStates = new Map();  // by title: sorted and filtered as before when the page is drawn anew
const short = (text) => (text.length > 200 ? `${text.slice(0, 200)}...` : text);

function table(where, title, objects) {
  if (!Array.isArray(objects) || objects.length === 0 || !isObject(objects[0])) return;
  const rows = objects.map((row) => flat(row));
  const known = (row, c) => row[c] !== null && row[c] !== undefined && row[c] !== '';
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((c) => rows.some((row) => known(row, c)));
  const isText = Object.fromEntries(columns.map((c) => [c, rows.some((r) => typeof r[c] === 'string' && r[c] !== '' && !isNumber(r[c]))]));
  const isLong = Object.fromEntries(columns.map((c) => [c, rows.some((r) => typeof r[c] === 'string' && r[c].length > 44)]));
  if (!tableStates.has(title)) tableStates.set(title, { column: null, down: false, filter: '', all: false });
  const state = tableStates.get(title);
  const body = el('tbody', {});
  const count = el('span', { role: 'status' });
  const more = el('button', { type: 'button', onclick: () => { state.all = true; draw(); } });
  const visible = () => {
    const wanted = state.filter.toLowerCase();
    const kept = rows.filter((row) => wanted === ''
      || columns.some((c) => shown(row[c], c).toLowerCase().includes(wanted)));
    if (state.column === null) return kept;
    const order = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b
      : String(a ?? '').localeCompare(String(b ?? ''), undefined, { numeric: true }));
    return kept.sort((a, b) => (state.down ? -1 : 1) * order(a[state.column], b[state.column]));
  };
  const heads = columns.map((c) => el('th', { scope: 'col', class: isText[c] ? 'text' : '' },
    el('button', { type: 'button', onclick: () => {
      state.down = state.column === c ? !state.down : !isText[c];
      state.column = c;
      draw();
    } }, heading(c))));
  function draw() {
    const kept = visible();
    const drawn = kept.slice(0, printing() ? MOST_PRINTED : state.all ? kept.length : FIRST_ROWS);
    body.replaceChildren(...drawn.map((row) => el('tr', {}, ...columns.map((c) => el('td',
      isText[c] ? { class: isLong[c] ? 'text long' : 'text', title: shown(row[c], c) } : {}, short(shown(row[c], c)))))));
    heads.forEach((head, i) => head.setAttribute('aria-sort',
      state.column !== columns[i] ? 'none' : state.down ? 'descending' : 'ascending'));
    count.textContent = `${kept.length} of ${rows.length} rows${drawn.length < kept.length ? `, the first ${drawn.length} shown` : ''}`;
    more.textContent = `show all ${kept.length}`;
    more.hidden = drawn.length === kept.length;
  }
  const filter = el('input', { type: 'search', placeholder: 'filter', 'aria-label': `filter ${title}`, value: state.filter,
    oninput: () => { state.filter = filter.value; draw(); } });
  const csv = el('button', { type: 'button', onclick: async () => {
    const copied = await copy([columns.map(csvField).join(','),
      ...visible().map((row) => columns.map((c) => csvField(row[c])).join(','))].join('\n'));
    said.textContent = copied ? 'copied' : 'the browser does not let this page copy';
    setTimeout(() => { said.textContent = ''; }, 4000);
  } }, 'copy as CSV');
  const said = el('span', { role: 'status' });
  draw();
  where.append(el('h3', {}, title), el('div', { class: 'tools' }, filter, csv, count, more, said),
    el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title },
      el('table', columns.length > 12 ? { class: 'wide' } : {}, el('thead', {}, el('tr', {}, ...heads)), body)));
}

// Arrow keys go through the marks of a chart, as a pointer would.
function walk(drawn, step) {
  const marks = drawn.data.datasets.flatMap((d, datasetIndex) => (drawn.isDatasetVisible(datasetIndex) ? d.data : [])
    .map((_, index) => ({ datasetIndex, index })));
  if (marks.length === 0) return;
  drawn.walkedTo = ((drawn.walkedTo ?? (step > 0 ? -1 : 0)) + step + marks.length) % marks.length;
  const active = [marks[drawn.walkedTo]];
  const at = drawn.getDatasetMeta(active[0].datasetIndex).data[active[0].index].getCenterPoint();
  drawn.setActiveElements(active);
  drawn.tooltip.setActiveElements(active, at);
  drawn.update('none');
}

function chart(where, title, config, note = '', height = 320) {
  const canvas = el('canvas', { role: 'img', tabindex: 0, 'aria-label': `${title}; arrow keys name its marks, the tables hold the figures`,
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      walk(Chart.getChart(canvas), step);
    } });
  const plot = el('div', { class: 'plot' }, canvas);
  plot.style.height = `${height}px`;
  where.append(el('figure', {}, el('figcaption', {}, title), note ? el('p', {}, note) : null, plot));
  config.options = { animation: false, responsive: true, maintainAspectRatio: false, ...config.options };
  charts.push(new Chart(canvas, config));
}

// Bytes as 1 kB, 10 kB, ...: of a logarithmic axis the powers of ten alone have a name.
const byteTicks = { ticks: { maxRotation: 0, callback: (v) => (/^1(0*)$/.test(String(v)) ? scaled(v, SIZE).replace(/\.0+ /, ' ') : '') } };
// Names beside bars have at most half of a narrow chart.
const names = (more = {}) => axis('', { ...more, ticks: { autoSkip: false, callback(value) {
  const name = this.getLabelForValue(value), most = Math.max(12, Math.floor(this.chart.width / 14));
  return name.length > most ? `${name.slice(0, most - 1)}\u2026` : name;
} } });
const axis = (text, more = {}) => ({ title: { display: true, text }, grid: { color: colour('--line') }, ...more });

// One bar a label, of parts that add up: {part: [value by label]}; beside each other where they do not.
function stacked(where, title, labels, parts, unit, note, add = true, range = {}) {
  const datasets = Object.entries(parts).filter(([, values]) => values.some((v) => v > 0))
    .map(([label, data]) => ({ label: words(label), data }));
  const colours = coloursOf(datasets.map((d) => d.label));
  datasets.forEach((d, i) => { d.backgroundColor = colours[i]; });
  chart(where, title, { type: 'bar', data: { labels, datasets }, options: { indexAxis: 'y',
    scales: { x: axis(unit, { stacked: add, ...range }), y: names({ stacked: add }) } } }, note,
  70 + (add ? 24 : 44) * Math.max(2, labels.length) + 20 * Math.floor(datasets.length * 180 / Math.min(1180, innerWidth)));
}

// Of microseconds, which may be ms or s of a size that reads.
function axisUnit(values, unit) {
  const largest = Math.max(...values.map((v) => Math.abs(v ?? 0)));
  if (unit !== 'us' || largest < 1e4) return [1, unit];
  return largest < 1e7 ? [1e3, 'ms'] : [1e6, 's'];
}

function bars(where, title, rows, label, value, givenUnit, note) {
  if (rows.length === 0) return;
  const [factor, unit] = axisUnit(rows.map((r) => r[value]), givenUnit);
  chart(where, title, { type: 'bar',
    data: { labels: rows.map((r) => String(r[label]).slice(0, 70)), datasets: [{ label: unit, data: rows.map((r) => r[value] / factor),
      backgroundColor: rows.map((r) => (r[value] < 0 ? palette(2) : palette(0))) }] },
    options: { indexAxis: 'y', plugins: { legend: { display: false } }, scales: { x: axis(unit), y: names() } } },
  note, 70 + 22 * Math.max(2, rows.length));
}

// {name: [{x, y, text}]}; `lines` are drawn as such; `colours` {name: number} where several groups have the same.
function scatter(where, title, groups, x, y, lines = [], note = '', colours = {}) {
  const datasets = Object.entries(groups).map(([label, data], i) => ({ label, data, showLine: lines.includes(label),
    pointRadius: lines.includes(label) && (data.length < 3 || label in colours) ? 0 : 4, borderColor: palette(colours[label] ?? i),
    backgroundColor: palette(colours[label] ?? i), borderWidth: 1.5,
    pointStyle: lines.includes(label) && (data.length < 3 || label in colours) ? 'line' : 'circle' }));
  chart(where, title, { type: 'scatter', data: { datasets }, options: { scales: { x, y },
    plugins: { legend: { labels: { usePointStyle: true, boxHeight: 7 } }, tooltip: { callbacks: { label: (at) => at.raw.text
      ?? `${at.dataset.label}: ${shown(at.raw.x)}, ${shown(at.raw.y)}` } } } } }, note, 380);
}

function shareBar(where, title, shares, note = '') {
  const parts = Object.fromEntries(Object.entries(shares).filter(([, v]) => v > 0).map(([k, v]) => [heading(k), [100 * v]]));
  if (Object.keys(parts).length === 0) return;
  stacked(where, title, [''], parts, '%', note, true, { max: 100 });
}

function headline(verdict, why = []) {
  page.append(el('header', {}, el('h1', {}, `foretrace ${answer.command}`), el('p', { class: 'verdict' }, verdict),
    ...why.filter(Boolean).map((text) => el('p', { class: 'why' }, text))));
}

function notes(list) {
  if (!Array.isArray(list) || list.length === 0) return;
  page.append(el('ul', { class: 'notes' }, ...list.map((text) => el('li',
    /^(warning|synthetic|replay)/i.test(text) ? { class: 'warning' } : {}, String(text)))));
}

// Whatever an answer holds beyond what its own page draws, so that none of it is missing.
function everything(where, { description, ...object }, title = '') {
  facts(where, object);
  for (const [key, value] of Object.entries(object)) {
    const name = title === '' ? heading(key) : `${title}: ${heading(key)}`;
    if (Array.isArray(value) && value.length > 0 && isObject(value[0])) table(where, name, value);
    else if (Array.isArray(value) && value.length > 0 && key !== 'notes') {
      table(where, name, value.map((entry) => ({ entry: isObject(entry) || Array.isArray(entry) ? JSON.stringify(entry) : entry })));
    } else if (isObject(value)) {
      const inner = flat(value);
      if (Object.values(inner).some((v) => v !== null && v !== '')) where.append(el('h3', {}, name));
      facts(where, inner, `${key}.`);
      for (const [k, v] of Object.entries(value)) {
        if (Array.isArray(v) && v.length > 0 && isObject(v[0])) table(where, `${name}: ${heading(k)}`, v);
      }
    }
  }
}

// Printed in light colours and as wide as paper is, whatever the screen.
const printing = () => document.documentElement.classList.contains('print');
for (const [event, on] of [['beforeprint', true], ['afterprint', false]]) {
  addEventListener(event, () => {
    const at = scrollY;
    document.documentElement.classList.toggle('print', on);
    draw();
    scrollTo(0, at);
  });
}

function draw() {
  charts.splice(0).forEach((drawn) => drawn.destroy());
  page.replaceChildren();
  Chart.defaults.color = colour('--ink');
  Chart.defaults.borderColor = colour('--line');
  const { command, schema_version: schema, foretrace_version: version, ...rest } = answer;
  (answers[command] ?? answers.other)(rest);
  const tables = section('All figures');
  everything(tables, rest);
  page.append(el('footer', {}, `foretrace ${version}, ${command}, schema ${schema}. Charts: Chart.js ${Chart.version}, MIT License.`));
  const links = [...page.querySelectorAll('section')].map((s) => el('a', { href: `#${s.id}` }, s.firstChild.textContent));
  page.querySelector('header')?.append(el('nav', { 'aria-label': 'sections' }, ...links));
  document.documentElement.dataset.charts = charts.length;
  document.documentElement.dataset.milliseconds = Math.round(performance.now());
  document.documentElement.dataset.ready = 'yes';
}
