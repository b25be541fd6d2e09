// Light or dark: as the system says, or as the reader chooses.

const colorProbe = document.createElement('span');
colorProbe.hidden = true;
document.body.append(colorProbe);

// The colour that a name of page.css stands for now: "series-0" -> "rgb(0, 114, 178)".
function cssColor(name) {
  colorProbe.style.color = `var(--${name})`;
  return getComputedStyle(colorProbe).color;
}

// A browser may forbid a file to store anything: then the choice holds until the page is closed.
function storedTheme() {
  try {
    return localStorage.getItem('tessera-theme') || 'auto';
  } catch {
    return 'auto';
  }
}

function storeTheme(theme) {
  try {
    localStorage.setItem('tessera-theme', theme);
  } catch {
    // Nothing to do.
  }
}

function applyTheme(theme) {
  if (theme === 'auto') {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  document.dispatchEvent(new Event('themechange'));
}

function startTheme() {
  const tools = document.getElementById('tools');
  if (!tools) return;
  const select = document.createElement('select');
  select.setAttribute('aria-label', 'Colours of the page');
  for (const [value, text] of [['auto', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]) {
    select.add(new Option(text, value));
  }
  select.value = storedTheme();
  select.addEventListener('change', () => {
    storeTheme(select.value);
    applyTheme(select.value);
  });
  const print = document.createElement('button');
  print.type = 'button';
  print.textContent = 'Print';
  print.addEventListener('click', () => window.print());
  tools.append(select, print);
  tools.hidden = false;
  matchMedia('(prefers-color-scheme: dark)')
    .addEventListener('change', () => document.dispatchEvent(new Event('themechange')));
  applyTheme(select.value);
}
