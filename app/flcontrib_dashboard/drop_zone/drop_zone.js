// Sends one file to the streaming route with progress; the page reads what came of it from the server, not from here.
const sending = new WeakMap()

function megabytes(bytes) {
  return (bytes / 1048576).toFixed(bytes < 10485760 ? 1 : 0) + " MB"
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component
  const at = (id) => parentElement.querySelector("#" + id)
  const zone = parentElement.querySelector(".zone")
  const input = at("log"), bar = at("bar"), words = at("words"), stop = at("stop")

  function end(text) {
    sending.delete(zone)
    bar.hidden = true
    stop.hidden = true
    input.disabled = false
    input.value = ""
    words.textContent = text
  }

  function send(file) {
    if (!file || sending.has(zone)) return
    if (file.size > data.largest) {
      words.textContent = file.name + " has " + megabytes(file.size) + "; at most " + megabytes(data.largest) +
        " are taken here. Give its path on the server instead."
      return
    }
    const request = new XMLHttpRequest()
    sending.set(zone, request)
    request.open("PUT", data.route + "/" + encodeURIComponent(file.name) + data.query)
    request.setRequestHeader(data.header, data.token)
    request.upload.onprogress = (e) => {
      bar.value = e.total ? e.loaded / e.total : 0
      words.textContent = e.loaded < e.total
        ? megabytes(e.loaded) + " of " + megabytes(e.total) + " sent"
        : megabytes(e.total) + " sent; checking the log …"
    }
    request.onload = () => {
      let told = {}
      try {
        told = JSON.parse(request.responseText)
      } catch (_) {
        told = { error: "the server answered " + request.status }
      }
      end(told.run ? file.name + ": received and checked" : file.name + ": " + (told.error || request.status))
      setTriggerValue("ended", told.sha256 || "none")
    }
    request.onerror = () => {
      end(file.name + ": the connection broke; nothing of it is kept")
      setTriggerValue("ended", "broken")
    }
    request.onabort = () => end(file.name + ": stopped; nothing of it is kept")
    bar.value = 0
    bar.hidden = false
    stop.hidden = false
    input.disabled = true
    words.textContent = "Sending " + file.name
    request.send(file)
  }

  input.onchange = () => send(input.files[0])
  stop.onclick = () => sending.get(zone)?.abort()
  zone.ondragover = (e) => {
    e.preventDefault()
    zone.classList.add("over")
  }
  zone.ondragleave = () => zone.classList.remove("over")
  zone.ondrop = (e) => {
    e.preventDefault()
    zone.classList.remove("over")
    send(e.dataTransfer.files[0])
  }
}
