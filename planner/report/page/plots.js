// Draws the figures of the page's data with Chart.js.

const plots = [];  // {figure, chart}

function axisOptions(axis) {
  const texts = new Map(axis.ticks.map(tick => [tick.value, tick.text]));
  return {
    type: axis.log ? 'logarithmic' : 'linear',
    min: axis.low,
    max: axis.high,
    title: {display: true, text: axis.label},
    afterBuildTicks: scale => {
      scale.ticks = axis.ticks.map(tick => ({value: tick.value}));
    },
    ticks: {callback: value => texts.get(value) ?? '', autoSkip: true, maxRotation: 0},
    grid: {drawBorder: true, tickLength: 5},
  };
}

function markDatasets(figure) {
  return figure.series.map(series => ({
    label: series.name,
    data: series.marks,
    showLine: series.line,
    colorName: series.color,
    endLabel: series.end_label,
    group: series.group,
    styleIndex: series.style,
    borderWidth: 1.8,
    borderDash: DASHES[Math.max(series.style, 0) % DASHES.length],
    pointRadius: series.name === 'frontier' ? 0 : 3.2,
    pointHoverRadius: 6,
    pointBorderWidth: 0.8,
  }));
}

function barDatasets(figure) {
  return figure.series.map(series => {
    const values = figure.bars.map(() => null);
    const texts = figure.bars.map(() => '');
    for (const mark of series.marks) {
      values[mark.x] = mark.y;
      texts[mark.x] = mark.text;
    }
    return {
      label: series.name, data: values, texts, colorName: series.color, group: series.group,
      styleIndex: series.style, borderWidth: 0.7, barPercentage: 0.8, categoryPercentage: 0.95,
    };
  });
}

function textOf(chart, {datasetIndex, index}) {
  const dataset = chart.data.datasets[datasetIndex];
  return dataset.texts ? dataset.texts[index] : dataset.data[index].text;
}

function tipOptions() {
  return {
    enabled: false,
    external: ({chart, tooltip}) => {
      const point = tooltip.opacity > 0 && tooltip.dataPoints?.[0];
      if (!point) {
        showTip('');
        return;
      }
      const box = chart.canvas.getBoundingClientRect();
      showTip(textOf(chart, point), box.left + tooltip.caretX, box.top + tooltip.caretY);
    },
  };
}

function markOptions(figure) {
  return {
    type: 'scatter',
    data: {datasets: markDatasets(figure)},
    options: {
      parsing: false,
      clip: false,
      interaction: {mode: 'nearest', intersect: false, axis: 'xy'},
      layout: {padding: {right: endLabelWidth(figure)}},
      scales: {x: axisOptions(figure.x), y: axisOptions(figure.y)},
    },
  };
}

function barOptions(figure) {
  const y = {
    type: 'category', stacked: true, grid: {display: false},
    ticks: {
      autoSkip: false,
      callback(value) {
        const name = this.getLabelForValue(value);
        return this.chart.width < 600 ? name.split(', ') : name;
      },
    },
  };
  return {
    type: 'bar',
    data: {labels: figure.bars, datasets: barDatasets(figure)},
    options: {
      indexAxis: 'y',
      interaction: {mode: 'nearest', intersect: true},
      layout: {padding: {right: figure.bar_ends.length ? 76 : 10, top: figure.limit ? 18 : 0}},
      scales: {x: {...axisOptions(figure.x), stacked: true}, y},
    },
  };
}

// Of a chart to be made, or of one that is there.
function colorConfig({data, options}) {
  const [ink, soft, rule, paper] = ['ink', 'soft', 'rule', 'paper'].map(cssColor);
  for (const dataset of data.datasets) {
    const color = cssColor(dataset.colorName);
    dataset.backgroundColor = color;
    dataset.borderColor = dataset.texts ? paper : color;
    dataset.pointBorderColor = paper;
    dataset.pointBackgroundColor = color;
  }
  for (const scale of Object.values(options.scales)) {
    scale.ticks.color = soft;
    scale.title && (scale.title.color = ink);
    scale.grid.color = rule;
    scale.grid.borderColor = soft;
  }
}

// Arrow keys go through the marks of a chart that has the focus.
function addKeys(chart) {
  let current = -1;
  const places = () => chart.data.datasets.flatMap((dataset, datasetIndex) =>
    chart.isDatasetVisible(datasetIndex)
      ? dataset.data.map((value, index) => ({datasetIndex, index, value}))
      : []).filter(place => place.value !== null);
  chart.canvas.addEventListener('keydown', event => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    const all = places();
    if (!step || all.length === 0) return;
    event.preventDefault();
    current = (current + step + all.length) % all.length;
    const {datasetIndex, index} = all[current];
    const mark = chart.getDatasetMeta(datasetIndex).data[index];
    chart.setActiveElements([{datasetIndex, index}]);
    chart.draw();
    const box = chart.canvas.getBoundingClientRect();
    const at = mark.tooltipPosition();
    showTip(textOf(chart, {datasetIndex, index}), box.left + at.x, box.top + at.y);
    say(textOf(chart, {datasetIndex, index}));
  });
  chart.canvas.addEventListener('blur', () => {
    chart.setActiveElements([]);
    chart.draw();
    showTip('');
  });
}

function addPlot(figure) {
  const element = document.getElementById(figure.id);
  const canvas = element.querySelector('canvas');
  const options = figure.kind === 'bars' ? barOptions(figure) : markOptions(figure);
  if (figure.kind === 'bars') {
    const pitch = figure.bars.length > 16 ? 18 : 30;
    canvas.parentElement.style.height = `${figure.bars.length * pitch + 90}px`;
  }
  options.options.animation = false;
  options.options.maintainAspectRatio = false;
  options.options.plugins = {legend: {display: false}, tooltip: tipOptions()};
  options.plugins = [annotations(figure)];
  colorConfig(options);
  const chart = new Chart(canvas, options);
  addKeys(chart);
  plots.push({figure, chart});
}

function filterPlots() {
  for (const {chart} of plots) {
    chart.data.datasets.forEach((dataset, index) => {
      chart.setDatasetVisibility(index, isShown(dataset.group, dataset.styleIndex));
    });
    chart.update();
  }
}

function startPlots() {
  const data = document.getElementById('figures');
  if (!data || typeof Chart === 'undefined') return;
  document.documentElement.classList.add('drawn');
  Chart.defaults.font.family = CHART_FACE;
  JSON.parse(data.textContent).forEach(addPlot);
  document.addEventListener('filterchange', filterPlots);
  document.addEventListener('themechange', () => {
    for (const {chart} of plots) {
      colorConfig(chart.config);
      chart.update();
    }
  });
}
