// Draws one picture with Plotly, redraws it in place when it changes, and says what the reader picked on it.
let coming

function plotly(address) {
  if (window.Plotly) return Promise.resolve(window.Plotly)
  coming ??= new Promise((ready, failed) => {
    let script = document.getElementById("drawing")
    if (!script || document.readyState === "complete") { // what the page's head asked for would be here by now
      script = document.createElement("script")
      script.src = address
      document.head.append(script)
    }
    script.addEventListener("load", () => ready(window.Plotly))
    script.addEventListener("error", () => { coming = undefined; script.remove(); failed(new Error("no " + address)) })
  })
  return coming
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

function draw(box) {
  const width = box.clientWidth
  if (!box.isConnected || width < 10) return // shown later: its size will change then
  const { figure, config } = box.wanted
  if (!box.listens) box.textContent = "" // an earlier try may have left a sentence
  window.Plotly.react(box, figure.data.map(unpacked), { ...figure.layout, width, uirevision: "kept" }, config)
  if (!box.listens) listen(box)
}

function listen(box) {
  box.listens = true
  box.on("plotly_click", ({ points }) => {
    const marks = points.filter((p) => p.customdata !== undefined).map((p) => ({ customdata: p.customdata }))
    if (marks.length) box.pick?.({ points: marks.slice(0, 1) })
  })
  box.on("plotly_selected", (chosen) => {
    const marked = chosen?.selections?.[0]
    if (!marked) return
    box.pick?.({ box: [{ x: [marked.x0, marked.x1], y: [marked.y0, marked.y1], yref: marked.yref }] })
    window.Plotly.update(box, { selectedpoints: [null] }, { selections: [] }) // the next picture shows what was taken
  })
}

export default function ({ data, parentElement, setTriggerValue }) {
  const box = parentElement.querySelector(".chart")
  const wanted = kept({ figure: JSON.parse(data.figure), config: structuredClone(data.config) }, box.wanted)
  const stands = box.listens && wanted === box.wanted
  box.setAttribute("aria-label", data.alt)
  box.style.height = wanted.figure.layout.height + "px" // its place is kept while Plotly is on its way
  box.wanted = wanted
  box.pick = data.picks ? (what) => setTriggerValue("picked", what) : undefined
  plotly(data.script).then(() => {
    if (stands || box.wanted !== wanted) return
    draw(box)
    if (box.watched) return
    box.watched = new ResizeObserver(() => { if (box.clientWidth !== box._fullLayout?.width) draw(box) })
    box.watched.observe(box)
  }, () => { box.textContent = "The chart could not be drawn: Plotly did not load. Show it as a table instead." })
  return () => {
    box.watched?.disconnect()
    if (box.listens) window.Plotly.purge(box)
    box.watched = box.wanted = box.listens = undefined // what comes back is drawn anew
  }
}
