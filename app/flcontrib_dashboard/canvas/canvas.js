// Shows a picture's drawing at once, draws it with Plotly when that is there, redraws it in place when it changes, and
// says what the reader picked on it.
let coming

function plotly(address) {
  if (window.Plotly) return Promise.resolve(window.Plotly)
  coming ??= new Promise((ready, failed) => {
    const script = document.createElement("script")
    script.src = address
    script.addEventListener("load", () => ready(window.Plotly))
    script.addEventListener("error", () => { coming = undefined; script.remove(); failed(new Error("no " + address)) })
    document.head.append(script)
  })
  return coming
}

// Plotly keeps the browser busy while it starts: what is on the page by now is painted first.
function painted() {
  if (window.Plotly) return Promise.resolve()
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
}

// Plotly computes anew whatever is not the very object it drew. Where nothing changed it is given that object again,
// so that a moved highlight draws a frame and not the numbers.
function kept(now, before) {
  if (!now || !before || typeof now !== "object" || Array.isArray(now) !== Array.isArray(before)) return now
  const keys = Object.keys(now)
  let same = keys.length === Object.keys(before).length
  for (const key of keys) {
    now[key] = kept(now[key], before[key])
    same &&= now[key] === before[key]
  }
  return same ? before : now
}

const numbers = new WeakMap()

function unpacked(value) {
  if (!value || typeof value !== "object" || Array.isArray(value)) return value
  if (!("bdata" in value)) return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, unpacked(v)]))
  if (!numbers.has(value)) numbers.set(value, read(value))
  return numbers.get(value)
}

function read({ bdata, shape }) {
  const flat = new Float64Array(Uint8Array.from(atob(bdata), (c) => c.charCodeAt(0)).buffer)
  if (!shape) return flat
  const [rows, columns] = shape.split(", ").map(Number)
  return Array.from({ length: rows }, (_, row) => flat.subarray(row * columns, (row + 1) * columns))
}

// Where a reader may zoom, the labels follow: whole epochs, at most nine of them.
const zoomable = (layout) => Object.keys(layout).filter((key) => /^xaxis/.test(key) && layout[key].fixedrange === false)
const STEPS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000]

function ticks(axis, [low, high]) {
  if (low <= axis.range[0] && high >= axis.range[1]) return axis.tickvals
  const step = STEPS.find((size) => (high - low) / size <= 9) ?? high - low
  const first = Math.max(1, Math.ceil(low / step)) * step
  return Array.from({ length: Math.max(0, Math.floor((high - first) / step) + 1) }, (_, n) => first + n * step)
}

function laidOut(box, width) {
  const { layout, narrow } = box.wanted
  const now = { ...layout, width, uirevision: "kept" }
  if (width <= narrow.width && layout.annotations?.some((note) => note.name === narrow.name)) {
    now.annotations = layout.annotations.filter((note) => note.name !== narrow.name)
    now.margin = { ...layout.margin, r: narrow.margin }
  }
  const axes = zoomable(layout)
  if (axes.length && matchMedia("(pointer: fine)").matches) now.dragmode = "zoom" // a finger scrolls the page
  for (const key of axes) {
    const zoomed = box.live._fullLayout?.[key]?.range
    const same = String(box.live.layout?.[key]?.uirevision) === String(layout[key].range)
    const tickvals = zoomed && same ? ticks(layout[key], zoomed) : layout[key].tickvals
    const range = [...layout[key].range] // Plotly writes into the one it is given
    now[key] = { ...layout[key], range, tickvals, uirevision: String(range) } // another run is not zoomed
  }
  return now
}

// The name of the saved picture changes with the picture. Plotly would take it for another configuration, begin anew
// and forget the zoom; another format is one, since the button names it.
function renamed({ listens, live, wanted }) {
  const options = wanted.config.toImageButtonOptions
  if (!listens || live._context.toImageButtonOptions.format !== options?.format) return
  live._context.toImageButtonOptions = { ...options }
}

function draw(box) {
  const width = box.clientWidth
  if (!box.isConnected || width < 10) return // shown later: its size will change then
  renamed(box)
  window.Plotly.react(box.live, box.wanted.data.map(unpacked), laidOut(box, width), box.wanted.config)
  if (!box.listens) listen(box)
  box.still.textContent = "" // the first paint, or a sentence that an earlier try left
}

function listen(box) {
  box.listens = true
  box.live.on("plotly_click", ({ points }) => {
    const marks = points.filter((p) => p.customdata !== undefined).map((p) => ({ customdata: p.customdata }))
    if (marks.length) box.pick?.({ points: marks.slice(0, 1) })
  })
  box.live.on("plotly_selected", (chosen) => {
    const marked = chosen?.selections?.[0]
    if (!marked) return
    box.pick?.({ box: [{ x: [marked.x0, marked.x1], y: [marked.y0, marked.y1], yref: marked.yref }] })
    window.Plotly.update(box.live, { selectedpoints: [null] }, { selections: [] }) // the next picture shows what was taken
  })
  box.live.on("plotly_relayout", (change) => {
    if (Object.keys(change).some((key) => /^xaxis\d*\.(range|autorange)/.test(key))) draw(box)
  })
}

export default function ({ data, parentElement, setTriggerValue }) {
  const box = parentElement.querySelector(".chart")
  box.live = box.querySelector(".live")
  box.still = box.querySelector(".still")
  const { data: traces, layout } = JSON.parse(data.figure)
  const config = structuredClone(data.config)
  const wanted = kept({ data: traces, layout, config, narrow: { ...data.narrow } }, box.wanted)
  const stands = box.listens && wanted === box.wanted
  box.setAttribute("aria-label", data.alt)
  box.style.height = layout.height + "px"
  box.wanted = wanted
  box.pick = data.picks ? (what) => setTriggerValue("picked", what) : undefined
  if (data.still && !box.listens) box.still.innerHTML = data.still
  painted().then(() => plotly(data.script)).then(() => {
    if (stands || box.wanted !== wanted) return
    draw(box)
    if (box.watched) return
    box.watched = new ResizeObserver(() => { if (box.clientWidth !== box.live._fullLayout?.width) draw(box) })
    box.watched.observe(box)
  }, () => {
    box.still.insertAdjacentHTML("beforeend", "<p>Plotly did not load: this drawing does not answer to clicks.</p>")
  })
  return () => {
    box.watched?.disconnect()
    if (box.listens) window.Plotly.purge(box.live)
    box.watched = box.wanted = box.listens = undefined // what comes back is drawn anew
  }
}
