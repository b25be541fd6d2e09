// The timeline of a pipeline's step: hover, keys and zoom over an SVG that is drawn already.

const ACTION_NAMES = {
  F: 'forward', B: 'backward', I: 'backward of inputs', W: 'backward of weights', O: 'other',
};
const MIN_NUMBER_WIDTH = 15;  // of an action that shows its micro-batch
const MAX_NUMBERS = 1500;

function secondsText(seconds) {
  if (seconds >= 1 || seconds === 0) return `${Number(seconds.toPrecision(4))} s`;
  if (seconds >= 1e-3) return `${Number((seconds * 1e3).toPrecision(4))} ms`;
  return `${Number((seconds * 1e6).toPrecision(4))} us`;
}

function svgElement(name, attributes, text = '') {
  const {namespaceURI} = document.querySelector('svg');
  const element = document.createElementNS(namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

class Timeline {
  constructor(data) {
    this.data = data;
    this.figure = document.getElementById(data.id);
    this.svg = this.figure.querySelector('svg.timeline');
    this.actions = this.svg.querySelector('svg.actions');
    this.time = this.svg.querySelector('g.time');
    this.told = this.figure.querySelector('.told');
    this.place = Object.fromEntries(['x', 'y', 'width', 'height'].map(
      name => [name, Number(this.actions.getAttribute(name))]));
    this.view = [0, data.shown];
    this.chosen = null;  // {stage, index}
    this.numbers = this.svg.appendChild(svgElement('g', {'aria-hidden': 'true'}));
    this.box = this.svg.appendChild(svgElement('rect', {class: 'chosen', visibility: 'hidden'}));
    this.addControls();
    this.addPointer();
    this.addKeys();
    this.draw();
  }

  x(part) {
    const [from, to] = this.view;
    return this.place.x + (part - from) / (to - from) * this.place.width;
  }

  seconds(part) {
    return part / this.data.parts * this.data.makespan_s;
  }

  draw() {
    const [from, to] = this.view;
    this.actions.setAttribute('viewBox', `${from} 0 ${to - from} ${this.place.height}`);
    this.drawTime();
    this.drawNumbers();
    this.drawChosen();
  }

  drawTime() {
    const [from, to] = this.view.map(part => this.seconds(part));
    const rough = (to - from) / 8;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(factor => factor * power).find(value => value >= rough);
    const bottom = this.place.y + this.place.height;
    const ticks = [];
    for (let n = Math.ceil(from / step - 1e-9); n * step <= to * (1 + 1e-9); ++n) {
      const x = this.x(n * step / this.data.makespan_s * this.data.parts);
      ticks.push(svgElement('line', {class: 'axis', x1: x, x2: x, y1: bottom, y2: bottom + 5}));
      ticks.push(svgElement('text', {class: 'tick', x, y: bottom + 18, 'text-anchor': 'middle'},
                            secondsText(n * step)));
    }
    this.time.replaceChildren(...ticks);
  }

  // The numbers of micro-batches, where the actions are wide enough to hold them.
  drawNumbers() {
    const [from, to] = this.view;
    const texts = [];
    const inView = (stage, i) => stage.ends[i] > from && stage.starts[i] < to;
    this.data.stages.forEach((stage, s) => {
      const y = this.place.y + (s + 0.5) * this.data.row + 3.5;
      for (let i = 0; i < stage.starts.length && texts.length <= MAX_NUMBERS; ++i) {
        const left = this.x(Math.max(stage.starts[i], from));
        const right = this.x(Math.min(stage.ends[i], to));
        if (!inView(stage, i) || right - left < MIN_NUMBER_WIDTH || this.data.row < 15) continue;
        const odd = stage.chunks[i] % 2 ? ' odd-number' : '';
        texts.push(svgElement(
          'text', {class: `number${odd}`, x: (left + right) / 2, y, 'text-anchor': 'middle'},
          String(stage.micro_batches[i] + 1)));
      }
    });
    this.numbers.replaceChildren(...(texts.length > MAX_NUMBERS ? [] : texts));
  }

  drawChosen() {
    if (!this.chosen) {
      this.box.setAttribute('visibility', 'hidden');
      return;
    }
    const {stage, index} = this.chosen;
    const {starts, ends} = this.data.stages[stage];
    const right = this.place.x + this.place.width;
    const left = Math.min(Math.max(this.x(starts[index]), this.place.x), right);
    const width = Math.max(Math.min(this.x(ends[index]), right) - left, 0);
    const attributes = {
      x: left, y: this.place.y + stage * this.data.row + 1, width, height: this.data.row - 2,
      visibility: 'visible',
    };
    for (const [key, value] of Object.entries(attributes)) this.box.setAttribute(key, value);
  }

  textOf({stage, index}) {
    const {kinds, micro_batches: microBatches, chunks, starts, ends} = this.data.stages[stage];
    const hasChunks = this.data.stages.some(other => other.chunks.some(chunk => chunk > 0));
    return `stage ${stage}, ${ACTION_NAMES[kinds[index]]}, micro-batch ${microBatches[index] + 1}` +
      `${hasChunks ? `, virtual stage ${chunks[index]}` : ''}; ` +
      `${secondsText(this.seconds(ends[index] - starts[index]))} from ` +
      `${secondsText(this.seconds(starts[index]))}`;
  }

  choose(chosen) {
    this.chosen = chosen;
    this.drawChosen();
  }

  // The action under a pointer, or null.
  at(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = box.width / this.svg.viewBox.baseVal.width;
    const x = (event.clientX - box.left) / scale - this.place.x;
    const y = (event.clientY - box.top) / scale - this.place.y;
    const stage = Math.floor(y / this.data.row);
    if (x < 0 || x > this.place.width || !this.data.stages[stage]) return null;
    const [from, to] = this.view;
    const part = from + x / this.place.width * (to - from);
    const {starts, ends} = this.data.stages[stage];
    const index = starts.findIndex((start, i) => start <= part && part < ends[i]);
    return index < 0 ? null : {stage, index};
  }

  zoomBy(factor, center = (this.view[0] + this.view[1]) / 2) {
    const width = Math.min(this.data.shown,
                           Math.max((this.view[1] - this.view[0]) * factor, this.data.shown / 400));
    this.showFrom(center - (center - this.view[0]) / (this.view[1] - this.view[0]) * width, width);
  }

  showFrom(from, width) {
    const start = Math.min(Math.max(from, 0), this.data.shown - width);
    this.view = [start, start + width];
    this.draw();
  }

  addControls() {
    const controls = this.figure.querySelector('.zoom');
    const whole = () => this.showFrom(0, this.data.shown);
    for (const [text, label, act] of [['−', 'Zoom out', () => this.zoomBy(2)],
                                      ['+', 'Zoom in', () => this.zoomBy(0.5)],
                                      ['Whole step', 'Show the whole step', whole]]) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = text;
      button.setAttribute('aria-label', label);
      button.addEventListener('click', act);
      controls.append(button);
    }
    controls.hidden = false;
  }

  addPointer() {
    this.svg.addEventListener('pointermove', event => {
      if (event.buttons & 1 && this.dragged) {
        const scale = this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width;
        const width = this.dragged.view[1] - this.dragged.view[0];
        const moved = (event.clientX - this.dragged.x) / scale / this.place.width * width;
        this.showFrom(this.dragged.view[0] - moved, width);
        return;
      }
      const found = this.at(event);
      this.choose(found);
      showTip(found ? this.textOf(found) : '', event.clientX, event.clientY);
    });
    this.svg.addEventListener('pointerdown', event => {
      this.dragged = {x: event.clientX, view: [...this.view]};
    });
    this.svg.addEventListener('pointerleave', () => {
      this.choose(null);
      showTip('');
    });
  }

  addKeys() {
    this.figure.querySelector('.drawing').addEventListener('keydown', event => {
      const moves = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]};
      if (event.key === '+' || event.key === '-') {
        this.zoomBy(event.key === '+' ? 0.5 : 2, this.centerOfChosen());
      } else if (moves[event.key] && !event.ctrlKey && !event.altKey) {
        this.step(...moves[event.key]);
      } else {
        return;
      }
      event.preventDefault();
    });
  }

  centerOfChosen() {
    if (!this.chosen) return undefined;
    const {starts, ends} = this.data.stages[this.chosen.stage];
    return (starts[this.chosen.index] + ends[this.chosen.index]) / 2;
  }

  // To the next action of the stage, or to the one of another stage that begins nearest.
  step(stages, actions) {
    if (!this.chosen) {
      this.chosen = {stage: 0, index: 0};
    } else {
      const here = this.data.stages[this.chosen.stage];
      const stage = Math.min(Math.max(this.chosen.stage + stages, 0), this.data.stages.length - 1);
      const {starts} = this.data.stages[stage];
      let index = this.chosen.index + actions;
      if (stages !== 0) {
        const start = here.starts[this.chosen.index];
        const distances = starts.map(other => Math.abs(other - start));
        index = distances.indexOf(Math.min(...distances));
      }
      this.chosen = {stage, index: Math.min(Math.max(index, 0), starts.length - 1)};
    }
    const center = this.centerOfChosen();
    const width = this.view[1] - this.view[0];
    if (center < this.view[0] || center > this.view[1]) this.showFrom(center - width / 2, width);
    this.drawChosen();
    this.told.textContent = this.textOf(this.chosen);
  }
}

function startTimelines() {
  const data = document.getElementById('timelines');
  if (!data) return;
  for (const timeline of JSON.parse(data.textContent)) new Timeline(timeline);
}
