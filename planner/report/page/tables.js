// Tables that sort by a click or a key on a header: numbers as such, empty cells last.

const spoken = document.createElement('p');
spoken.className = 'unseen';
spoken.setAttribute('aria-live', 'polite');
document.body.append(spoken);

function say(text) {
  spoken.textContent = text;
}

function sortKey(row, column) {
  const cell = row.cells[column];
  if (!cell || 'missing' in cell.dataset) return null;
  if ('value' in cell.dataset) return Number(cell.dataset.value);
  return cell.textContent;
}

function compareKeys(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === 'number' && typeof b === 'number') return direction * (a - b);
  return direction * String(a).localeCompare(String(b), undefined, {numeric: true});
}

function sortTable(table, header) {
  const direction = header.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.setAttribute('aria-sort', 'none');
  header.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
  const column = header.cellIndex;
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, row => ({row, key: sortKey(row, column)}));
  keyed.sort((a, b) => compareKeys(a.key, b.key, direction));
  body.append(...keyed.map(entry => entry.row));
  say(`Sorted by ${header.textContent}, ${header.getAttribute('aria-sort')}`);
}

function startTables() {
  for (const table of document.querySelectorAll('table.sortable')) {
    for (const header of table.tHead.rows[0].cells) {
      header.querySelector('button').addEventListener('click', () => sortTable(table, header));
    }
  }
}
