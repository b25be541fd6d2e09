// Check boxes that choose which groups and styles the charts and the table of points show.

const hiddenKeys = {group: new Set(), style: new Set()};

// Without a group or style (-1, or none) a thing is always shown.
function isShown(group, style) {
  return !hiddenKeys.group.has(String(group)) && !hiddenKeys.style.has(String(style));
}

function applyFilters() {
  for (const element of document.querySelectorAll('[data-group], [data-style]')) {
    const shown = isShown(element.dataset.group, element.dataset.style);
    if (element.tagName === 'LI') {
      element.classList.toggle('off', !shown);
    } else if (element.tagName === 'TR') {
      element.hidden = !shown;
    } else {
      element.style.display = shown ? '' : 'none';
    }
  }
  document.dispatchEvent(new Event('filterchange'));
}

function startFilters() {
  for (const form of document.querySelectorAll('form.filters')) {
    form.hidden = false;
    form.addEventListener('submit', event => event.preventDefault());
    form.addEventListener('change', event => {
      const {filter} = event.target.dataset;
      if (!filter) return;
      if (event.target.checked) {
        hiddenKeys[filter].delete(event.target.value);
      } else {
        hiddenKeys[filter].add(event.target.value);
      }
      applyFilters();
    });
  }
}
